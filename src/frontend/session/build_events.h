#pragma once

#include <string>
#include <string_view>

#include "base/event.h"
#include "frontend/session/executable.h"
#include "frontend/session/session.h"
#include "frontend/trace/host_read.h"

// What a session tells of its compilations (docs/events.md).
namespace monograph::session {

// `build`: null for the interpreter. `ns`: tracing and compiling together.
void write_build(EventLog& events, std::string_view frame_key, const ir::Graph& traced,
                 const TraceRecord& record, const Build* build, std::string_view backend,
                 int64_t ns);
void write_recompile(EventLog& events, std::string_view frame_key, size_t num_signatures,
                     std::string_view reason);

void write_breaks(EventLog& events, std::string_view frame_key,
                  const std::vector<trace::HostRead>& reads);
// Once: from now on, calls that no signature serves run op by op.
void write_recompile_limit(EventLog& events, std::string_view function, size_t num_signatures,
                           std::string_view reason);

}  // namespace monograph::session
