#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontend/session/dynamic_inputs.h"
#include "frontend/session/executable.h"
#include "frontend/session/guards.h"
#include "frontend/session/segments.h"
#include "frontend/session/session.h"

namespace monograph::session {

class StateStorage;

// What the host read and did in one call, in order.
using Journal = std::vector<trace::HostValue>;

// One path through a compiled function: a signature of inputs, and the numbers that were read on
// the way. Without host reads it is one graph; with them, a chain of segments.
struct Compiled::Variant {
  struct Part {
    Segment segment;
    std::unique_ptr<Executable> executable;
  };

  Guards guards;
  std::unique_ptr<ir::Graph> graph;    // the whole path
  std::vector<trace::HostRead> reads;  // where it leaves the graph
  Journal numbers;                     // what was read there when it was traced last
  std::vector<Part> parts;             // one more than reads
  TraceRecord record;
  std::vector<std::string> unused_parameters;
  std::vector<std::string> states, updated;  // read; changed by a run
  StateStorage* storage = nullptr;
  std::unique_ptr<DynamicFunction> dynamic;  // of a variant for many sizes
  std::string frame_key;                     // "train_step#1", in events

  // Writes an event when a part has begun to run without its compiled kernels, and when it has
  // them.
  void report_fallback(EventLog& events);

  bool serves(const Call& call) const;

  // True when the first numbers that this path read are those of the journal.
  bool follows(const Journal& journal) const;
  // The read at which the path leaves the journal, which it does not follow.
  size_t first_difference(const Journal& journal) const;
  // One step: the outputs in the graph's order. Nothing when a number read now is not the one that
  // this path was traced with: the journal then ends with it, and no state has changed. Reads that
  // the journal has are not done again. `check` sees each number that is read.
  using NumberCheck = std::function<void(const trace::HostRead& read, double number)>;
  std::optional<std::vector<ir::Literal>> run(const runtime::InputMap& inputs, Journal& journal,
                                              const NumberCheck& check);

 private:
  std::vector<bool> has_told_fallback_, has_told_swap_;  // by part
  std::vector<ir::Literal> run_part(Part& part, const runtime::InputMap& values) const;
};

}  // namespace monograph::session
