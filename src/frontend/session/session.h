#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/pipeline_schedule.h"
#include "base/event.h"
#include "frontend/session/options.h"
#include "frontend/trace/trace.h"
#include "ir/graph.h"
#include "passes/distribute/compress_exchange.h"
#include "runtime/mesh_context.h"

namespace monograph::session {

class Executable;
class Session;
class StateStorage;
class StateStore;
struct GuardMiss;
struct TensorView;

// What the functions of a session run on; it may change between two steps.
struct SessionMesh {
  explicit SessionMesh(std::shared_ptr<const runtime::MeshContext> mesh)
      : context(std::move(mesh)) {}
  std::shared_ptr<const runtime::MeshContext> context;  // null: one rank
};

// A function over traced tensors, as compile() takes it: `arity` tensors in; what it returns,
// named.
struct TracedFunction {
  std::function<trace::Outputs(const std::vector<trace::Tensor>&)> call;
  int arity = 0;
};

// What a step returned, by name and in order.
struct Results {
  std::vector<std::string> names;
  std::vector<ir::Literal> values;

  const ir::Literal& operator[](std::string_view name) const;  // UserError names the valid ones
  double scalar(std::string_view name) const;                  // of one element
  double loss() const { return values.at(0).get(0); }
};

// How tracing one signature went, for reports.
struct TraceRecord {
  int num_nodes = 0;
  Hash hash;
  std::vector<passes::Remark> remarks = {};  // of how states were sharded, gradients compressed
  passes::ExchangeSavings savings = {};
  std::optional<analysis::PipelineReport> pipeline = {};
  int64_t trace_ns = 0;   // running the function: forward, backward, optimizer
  int64_t verify_ns = 0;  // 0 with verify off
  int num_breaks = 0;     // reads on the host
};

// A function that is traced, once for each signature of inputs, and compiled. A handle: copies are
// the same function.
class Compiled {
 public:
  // Runs one step. UserError when the number of inputs, or what the function does with them, is
  // wrong.
  Results operator()(const std::vector<ir::Literal>& inputs);
  template <typename... Literals>
  requires(std::same_as<Literals, ir::Literal>&&...) Results operator()(const Literals&... inputs) {
    return (*this)(std::vector<ir::Literal>{inputs...});
  }
  // The same, where the device works beside the host: returns while the step runs. What is returned
  // waits for the results; call it before three more steps are started.
  std::function<Results()> start(const std::vector<ir::Literal>& inputs);
  // The same for tensors of others: in other layouts, too (tensor_view.h).
  Results run_on(std::span<const TensorView> inputs);
  // Traces and compiles for inputs of these types, if that is not done yet; runs nothing.
  const ir::Graph& graph(const std::vector<ir::TensorType>& inputs);
  // The same function as it runs: how it was built, times of its parts.
  Executable& executable(const std::vector<ir::TensorType>& inputs);
  const TraceRecord& trace_record(const std::vector<ir::TensorType>& inputs);
  // What that serves: subject and what it must be, as Guards::describe.
  std::vector<std::pair<std::string, std::string>> guards(
      const std::vector<ir::TensorType>& inputs);
  // Trainable parameters that the loss does not depend on, in the last signature used.
  const std::vector<std::string>& unused_parameters() const;
  int num_signatures() const;
  // The graph breaks of the path that was used last.
  const std::vector<trace::HostRead>& breaks() const;
  // The guards that missed when it was compiled last, against the nearest variant (guards.h); empty
  // as long as it was compiled once.
  const std::vector<GuardMiss>& guard_misses() const;
  // Of dims that were declared dynamic: where the function does something else at other sizes, so
  // that it was compiled for one size; empty where it was compiled for all.
  const std::vector<std::string>& specializations() const;
  // Calls past the recompile limit, which were run without compiling anything.
  int64_t num_eager_calls() const;
  Session session() const;

 private:
  friend class Session;
  struct Data;
  struct Variant;  // one signature and path
  struct Call;     // what one call gives and has read so far
  explicit Compiled(std::shared_ptr<Data> data) : data_(std::move(data)) {}
  Variant* find(const Call& call) const;
  Variant& variant(const std::vector<ir::TensorType>& inputs);
  Variant* find_traced(Call& call, std::unique_ptr<Variant>& traced) const;
  Variant& build(Call& call, std::unique_ptr<Variant> traced = nullptr);
  std::unique_ptr<Variant> trace(Call& call) const;
  trace::HostValue read(trace::Trace& trace, const trace::HostRead& read, Call& call) const;
  void declare(const trace::State& state) const;
  void declare_states(const trace::Trace& trace, const ir::Graph& graph) const;
  void make_executables(Variant& variant) const;
  void interpret(Variant& variant) const;
  void agree_with_ranks(const Variant& variant) const;
  std::unique_ptr<Executable> make_executable(const ir::Graph& graph, StateStorage*& storage) const;
  bool is_past_limit() const;
  Results run_eagerly(Call& call, std::unique_ptr<Variant> traced);
  void check_ranks_read(const trace::HostRead& read, double number) const;
  std::vector<GuardMiss> misses_of(const Call& call, const ir::Graph& traced) const;
  std::vector<std::string> input_names(size_t count) const;
  const ir::Mesh* mesh_of_call() const;
  std::function<Results()> start(Call& call);
  std::shared_ptr<Data> data_;
};

trace::Outputs outputs_of(trace::Tensor loss);
trace::Outputs outputs_of(trace::Outputs outputs);
template <typename... Tensors>
trace::Outputs outputs_of(const std::tuple<Tensors...>& tensors) {
  trace::Outputs outputs;
  const auto add = [&](const trace::Tensor& tensor) {
    outputs.emplace_back(outputs.empty() ? "loss" : "output" + std::to_string(outputs.size()),
                         tensor);
  };
  std::apply([&](const auto&... tensor) { (add(tensor), ...); }, tensors);
  return outputs;
}

inline constexpr int kMaxArity = 8;

// The least number of tensors that the function can be called with.
template <typename Function, typename... Tensors>
constexpr int arity_of() {
  if constexpr (sizeof...(Tensors) > 0 && std::invocable<Function&, const Tensors&...>) {
    return sizeof...(Tensors);
  } else if constexpr (sizeof...(Tensors) < kMaxArity) {
    return arity_of<Function, trace::Tensor, Tensors...>();
  } else {
    return -1;
  }
}

template <typename Function>
TracedFunction traced_function(Function function) {
  constexpr int kArity = arity_of<Function>();
  static_assert(kArity > 0, "compile() takes a function of 1 to 8 tensors");
  return {[function](const std::vector<trace::Tensor>& x) mutable {
            return [&]<size_t... I>(std::index_sequence<I...>) {
              return outputs_of(function(x[I]...));
            }
            (std::make_index_sequence<kArity>());
          },
          kArity};
}

struct SessionConfig {
  int64_t seed = 0;  // of the beginning of parameters and of dropout
  CompileOptions options = {};
  EventLog* events = nullptr;  // must outlive the session; null: none
  // What collectives run on; null: one rank. The only place where a session knows its rank.
  std::shared_ptr<const runtime::MeshContext> mesh = nullptr;
};

// Holds the states (parameters, moments, buffers) by name, and shares them among the functions
// compiled in it: a train step, an evaluation, a sampler. A handle: copies are the same session.
class Session {
 public:
  explicit Session(SessionConfig config = {});

  // The function returns a Tensor (the loss), a tuple of Tensors or trace::Outputs (named).
  template <typename Function>
  Compiled compile(Function function) {
    return compile(std::move(function), options_);
  }
  template <typename Function>
  Compiled compile(Function function, CompileOptions options) {
    return compile_traced(traced_function(std::move(function)), std::move(options));
  }
  Compiled compile_traced(TracedFunction function, CompileOptions options);

  // States exist once a function that reads them is traced, or set_state has made them. UserError
  // for a name that there is none of, or a value of another type.
  // The value of a state that is sharded (nn::fully_shard) is gathered from all ranks: each of them
  // asks for the same states in the same order.
  ir::Literal state(const std::string& name) const;
  ir::TensorType state_type(const std::string& name) const;
  void set_state(const std::string& name, const ir::Literal& value);
  std::vector<std::string> state_names() const;
  // Where the newest value of a state lies, "cpu" or "cuda"; empty before the first step.
  std::string state_device(const std::string& name) const;

  // From now on steps run on this mesh; a function compiled for another is compiled again when it
  // is called next.
  void set_mesh(std::shared_ptr<const runtime::MeshContext> mesh);

 private:
  friend class Compiled;
  Session(std::shared_ptr<StateStore> states, CompileOptions options, EventLog* events,
          std::shared_ptr<SessionMesh> mesh)
      : states_(std::move(states)),
        options_(std::move(options)),
        events_(events),
        mesh_(std::move(mesh)) {}
  std::shared_ptr<StateStore> states_;
  CompileOptions options_;
  EventLog* events_ = nullptr;
  std::shared_ptr<SessionMesh> mesh_;
};

// A function with a session of its own.
template <typename Function>
Compiled compile(Function function, CompileOptions options = {}, int64_t seed = 0) {
  return Session({seed, options}).compile(std::move(function));
}

}  // namespace monograph::session
