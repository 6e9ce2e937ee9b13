#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frontend/session/options.h"
#include "ir/graph.h"
#include "runtime/interpreter.h"

namespace monograph::session {

// A compiled graph, ready to run. Owns the storage of its states.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual void write_state(const std::string& name, const ir::Literal& value) = 0;
  virtual ir::Literal read_state(const std::string& name) = 0;
  // One step: the outputs in the graph's order; states are updated in place.
  virtual std::vector<ir::Literal> run(const runtime::InputMap& inputs) = 0;
};

// UserError for options that are not valid, or that the graph does not fit.
std::unique_ptr<Executable> make_executable(const ir::Graph& graph, const CompileOptions& options);

}  // namespace monograph::session
