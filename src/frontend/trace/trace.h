#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "frontend/trace/host_read.h"
#include "frontend/trace/precision.h"
#include "frontend/trace/tensor.h"
#include "ir/graph.h"
#include "ir/state_names.h"
#include "ops/builder.h"
#include "passes/autodiff/autodiff.h"
#include "passes/pass.h"

namespace monograph::trace {

// What a traced function returns, in order: the loss first, then metrics.
using Outputs = std::vector<std::pair<std::string, Tensor>>;

using ir::kSeedName;
using ir::kStepName;

// Builds the one graph of a step. There is no current trace: an op reaches it through its operands.
class Trace : public std::enable_shared_from_this<Trace> {
 public:
  static std::shared_ptr<Trace> create(std::string name = "step");

  Tensor input(std::string name, ir::TensorType type);

  // The state's value: before the step, or what `update` has set. Registers the state at first
  // use; UserError when another state has its name.
  Tensor read(const State& state);
  // The state's value after the step. UserError unless it has the state's type.
  void update(const State& state, const Tensor& next);

  Tensor full(ir::TensorType type, double value, Location where = Location::current());
  // Each element's index along an axis.
  Tensor iota(ir::TensorType type, int axis, Location where = Location::current());
  // Uniform f32 in [0, 1), new at each step. Depends on the seed, the step, the scope and how many
  // were drawn in that scope before; of a part of the batch, an element also on its number in the
  // whole, so that the numbers are the same on any number of ranks and micro-batches, where the
  // batch is the first axis.
  enum class Spread { kPartOfBatch, kSameOnAllRanks };
  Tensor random_uniform(ir::Shape shape, Spread spread = Spread::kPartOfBatch,
                        Location where = Location::current());
  // The mesh axes, and their sizes, whose ranks have parts of the batch; the last changes fastest.
  using Axes = std::vector<std::pair<std::string, int64_t>>;
  void set_batch_axes(Axes axes) { batch_axes_ = std::move(axes); }
  // Whether some input of the step has a part in the value.
  bool comes_from_inputs(const Tensor& tensor) const;
  // How many steps were done before this one, i64[]; a trace that reads it counts as a step.
  Tensor step();

  // The place of this rank on a mesh axis, i64[].
  Tensor coordinate(std::string_view axis);

  // Appends a node. Operands: at least one tensor. UserError gets the place and scope added.
  std::vector<Tensor> emit_all(std::string_view op, const std::vector<TensorArgument>& operands,
                               ir::Attributes attributes, const Location& where);
  // The same for an op that reads no tensor.
  Tensor create_node(std::string_view op, std::vector<ir::Value> operands,
                     ir::Attributes attributes, const Location& where);

  // A switch that decided what is traced, by `what` it is ("training mode of 'drop'"); returns its
  // value. Whoever reuses the graph checks that it still stands so.
  bool read_switch(std::shared_ptr<const bool> flag, std::string what);
  struct Switch {
    std::string what;
    std::shared_ptr<const bool> flag;
    bool value;
    ir::Provenance place = {};  // of the first node traced after it was read
  };
  const std::vector<Switch>& switches() const { return switches_; }

  // Who reads values while the trace is made. Without one, and with `fullgraph`, reading is a
  // UserError with place, reason and advice.
  using HostReader = std::function<HostValue(const HostRead&)>;
  void set_host_reader(HostReader reader) { host_reader_ = std::move(reader); }
  // Ops that the registry has not: emit_all reads the operands on the host.
  void set_host_ops(const HostOps& ops) { host_ops_ = &ops; }  // must outlive the trace
  // Notes the read and has it done.
  HostValue read_on_host(HostRead read, const Location& where);
  const std::vector<HostRead>& host_reads() const { return host_reads_; }

  bool has_backward();  // some node of the backward phase
  // In which part of the batch the node was traced (see PartOfBatch); -1: outside of them.
  int part_of(const ir::Node& node) const;

  // Parts of the graph with gradients of their own (custom_gradient.h).
  void add_custom_gradient(passes::CustomGradient custom) {
    custom_gradients_.push_back(std::move(custom));
  }
  const std::vector<passes::CustomGradient>& custom_gradients() const { return custom_gradients_; }

  // Called after each node that the traced function appends.
  using NodeObserver = std::function<void(const ir::Node&)>;
  void set_observer(NodeObserver observer) { observer_ = std::move(observer); }

  // Trainable parameters that were read but that the loss does not depend on.
  void note_unused(std::string parameter) { unused_parameters_.push_back(std::move(parameter)); }
  const std::vector<std::string>& unused_parameters() const { return unused_parameters_; }

  struct TracedState {
    State state;
    ir::Node* node;
    ir::Value value;  // as `read` gives it
  };
  // In order of first use.
  const std::vector<TracedState>& states() const { return states_; }

  // From now on, products are traced in this precision.
  void set_precision(Precision precision) { precision_ = precision; }
  const Precision& precision() const { return precision_; }

  ir::Graph& graph();
  passes::PassContext& context() { return context_; }

  // Ends the trace: sets the outputs, counts the step if it was read, drops nodes without effect
  // (what is read on the host has one). Tensors of it are of no use afterwards.
  std::unique_ptr<ir::Graph> finish(const Outputs& outputs);

 private:
  friend class Scope;
  friend class Pin;
  friend class PhaseScope;
  friend class PartOfBatch;
  explicit Trace(std::string name);

  TracedState& traced(const State& state);
  ir::Provenance provenance(const Location& where) const;
  std::vector<ir::Value> resolve(std::string_view op, const std::vector<TensorArgument>& operands,
                                 const Location& where);
  std::optional<ir::DType> common_dtype(std::string_view op,
                                        const std::vector<TensorArgument>& operands,
                                        const std::vector<ir::Value>& values) const;
  std::vector<Tensor> emit_values(std::string_view op, std::vector<ir::Value> operands,
                                  ir::Attributes attributes, const Location& where);

  std::unique_ptr<ir::Graph> graph_;
  ops::Builder builder_;
  passes::PassContext context_;
  std::vector<TracedState> states_;
  std::unordered_map<std::string, size_t> state_numbers_;  // by name: where it is in states_
  std::map<std::string, int> num_draws_;                   // by scope
  std::unordered_set<const ir::Node*> from_inputs_;
  Axes batch_axes_;
  int64_t part_ = 0, num_parts_ = 1;                // of this rank's part of the batch
  std::unordered_map<const ir::Node*, int> parts_;  // of nodes that were traced in one
  std::vector<Switch> switches_;
  size_t num_placed_switches_ = 0;
  std::vector<std::string> unused_parameters_;
  HostReader host_reader_;
  std::vector<HostRead> host_reads_;
  const HostOps* host_ops_ = nullptr;
  std::vector<passes::CustomGradient> custom_gradients_;
  NodeObserver observer_;
  State seed_, step_;
  std::map<std::string, State, std::less<>> coordinates_;  // by axis
  std::string scope_;
  Location pinned_;
  bool is_pinned_ = false;
  ir::Phase phase_ = ir::Phase::kForward;
  Precision precision_;
  Narrowing narrowing_;
};

// The trace of the first traced operand; UserError when there is none.
Trace& trace_of(std::string_view op, const std::vector<TensorArgument>& operands);

std::vector<Tensor> emit_all(std::string_view op, const std::vector<TensorArgument>& operands,
                             ir::Attributes attributes = {});
Tensor emit(std::string_view op, const std::vector<TensorArgument>& operands,
            ir::Attributes attributes = {});
Tensor emit_at(const Location& where, std::string_view op,
               const std::vector<TensorArgument>& operands, ir::Attributes attributes = {});

// While it lives, new nodes have this scope path.
class Scope {
 public:
  Scope(Trace& trace, std::string path);
  ~Scope() { trace_.scope_ = before_; }
  Scope(const Scope&) = delete;

 private:
  Trace& trace_;
  std::string before_;
};

// While it lives, new nodes have this place: a composition's nodes lead to its caller. The
// outermost wins.
class Pin {
 public:
  Pin(Trace& trace, const Location& where);
  ~Pin();
  Pin(const Pin&) = delete;

 private:
  Trace& trace_;
  bool is_outermost_;
};

// What a composition opens with: finds the trace among its operands and pins the caller's place.
class Caller {
 public:
  Caller(std::string_view op, const std::vector<TensorArgument>& operands)
      : trace_(trace_of(op, operands)), pin_(trace_, operands[0].where()) {}

  Trace& trace() const { return trace_; }
  Tensor read(const TensorArgument& operand) const;  // not for numbers

 private:
  Trace& trace_;
  Pin pin_;
};

// While it lives, new nodes belong to this phase.
class PhaseScope {
 public:
  PhaseScope(Trace& trace, ir::Phase phase);
  ~PhaseScope() { trace_.phase_ = before_; }
  PhaseScope(const PhaseScope&) = delete;

 private:
  Trace& trace_;
  ir::Phase before_;
};

// While it lives, tensors of the batch are one of `count` equal slices of it along the first axis.
class PartOfBatch {
 public:
  PartOfBatch(Trace& trace, int64_t part, int64_t count);
  ~PartOfBatch();
  PartOfBatch(const PartOfBatch&) = delete;

 private:
  Trace& trace_;
  const std::map<std::string, int> num_draws_before_;
  const int num_nodes_before_;
};

}  // namespace monograph::trace
