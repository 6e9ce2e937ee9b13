#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/event.h"
#include "frontend/session/executable.h"
#include "frontend/session/guards.h"
#include "frontend/session/session.h"
#include "frontend/trace/host_read.h"

namespace monograph::session {

// Below this share of fused nodes, reports say why the others are not.
inline constexpr double kExpectedFusedShare = 0.9;
// How many edges between two kernels stayed, by cause.
std::map<std::string, int> unfused_edges(const std::vector<passes::Remark>& remarks);

}  // namespace monograph::session

// What a session tells of its compilations (docs/events.md).
namespace monograph::session {

// `build`: null for the interpreter. `ns`: tracing and compiling together.
void write_build(EventLog& events, std::string_view frame_key, const ir::Graph& traced,
                 const TraceRecord& record, const Build* build, std::string_view backend,
                 int64_t ns);
// `misses`: the guards because of which it compiled again; the first is written field by field.
void write_recompile(EventLog& events, std::string_view frame_key, size_t num_signatures,
                     std::span<const GuardMiss> misses);

void write_breaks(EventLog& events, std::string_view frame_key,
                  const std::vector<trace::HostRead>& reads);
// The step runs without compiled kernels; it has them.
void write_fallback(EventLog& events, std::string_view frame_key, const Hash& graph,
                    const Fallback& fallback);
void write_swap_in(EventLog& events, std::string_view frame_key, const Hash& graph,
                   const Fallback& fallback);

// Once: from now on, calls that no signature serves run op by op.
void write_recompile_limit(EventLog& events, std::string_view function, size_t num_signatures,
                           std::string_view reason);

}  // namespace monograph::session
