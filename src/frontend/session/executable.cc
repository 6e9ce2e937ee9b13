#include "frontend/session/executable.h"

#include "base/error.h"

namespace monograph::session {
namespace {

class Interpreted : public Executable {
 public:
  explicit Interpreted(const ir::Graph& graph) : graph_(graph.clone()) {}
  void write_state(const std::string& name, const ir::Literal& value) override {
    states_[name] = value;
  }
  ir::Literal read_state(const std::string& name) override { return states_.at(name); }
  std::vector<ir::Literal> run(const runtime::InputMap& inputs) override {
    return runtime::interpret(*graph_, inputs, states_);
  }

 private:
  std::unique_ptr<ir::Graph> graph_;
  runtime::StateMap states_;
};

class Null : public Executable {
 public:
  void write_state(const std::string&, const ir::Literal&) override {}
  ir::Literal read_state(const std::string& name) override { refuse(name); }
  std::vector<ir::Literal> run(const runtime::InputMap&) override { refuse("a step"); }

 private:
  [[noreturn]] static void refuse(const std::string& what) {
    throw_user_error(
        "backend null compiles and runs nothing: {} has no value; use backend cpu or "
        "interpret",
        what);
  }
};

}  // namespace

std::unique_ptr<Executable> make_executable(const ir::Graph& graph, const CompileOptions& options) {
  check_options(options);
  if (options.backend == "null") return std::make_unique<Null>();
  if (options.backend == "interpret") return std::make_unique<Interpreted>(graph);
  throw_user_error("backend '{}' is not built in: use interpret or null", options.backend);
}

}  // namespace monograph::session
