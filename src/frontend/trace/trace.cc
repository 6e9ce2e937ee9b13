#include "frontend/trace/trace.h"

#include <algorithm>

#include "analysis/liveness.h"
#include "base/error.h"
#include "frontend/trace/functions.h"
#include "frontend/trace/promotion.h"
#include "frontend/trace/stream.h"
#include "ir/mesh.h"
#include "ops/registry.h"

namespace monograph::trace {
namespace {

const ir::TensorType kI64Scalar{ir::DType::kI64, {}};

State counter(std::string_view name) {
  return {std::string(name), kI64Scalar, ir::StateRole::kBuffer, Initializer::constant(0)};
}

}  // namespace

Trace::Trace(std::string name)
    : graph_(std::make_unique<ir::Graph>(std::move(name))),
      builder_(*graph_),
      seed_(counter(kSeedName)),
      step_(counter(kStepName)) {}

std::shared_ptr<Trace> Trace::create(std::string name) {
  return std::shared_ptr<Trace>(new Trace(std::move(name)));
}

ir::Graph& Trace::graph() {
  if (!graph_) {
    throw_user_error(
        "a tensor of a step whose trace has ended was used: tensors live only inside "
        "the function given to compile(); return what is needed outside");
  }
  return *graph_;
}

Tensor Trace::input(std::string name, ir::TensorType type) {
  return {shared_from_this(), graph().add_input(std::move(name), std::move(type))->result()};
}

Trace::TracedState& Trace::traced(const State& state) {
  ir::Graph& graph = this->graph();
  const auto [found, is_new] = state_numbers_.try_emplace(state.name(), states_.size());
  if (is_new) {
    ir::Node* node = graph.add_state(state.name(), state.type(), state.role());
    states_.push_back({state, node, node->result()});
    return states_.back();
  }
  TracedState& known = states_[found->second];
  if (known.state.is_same(state)) return known;
  throw_user_error("two states are named '{}' ({} and {}): give their modules different names",
                   state.name(), known.state.type().str(), state.type().str());
}

Tensor Trace::read(const State& state) {
  return {shared_from_this(), traced(state).value};
}

void Trace::update(const State& state, const Tensor& next) {
  check(&next.trace() == this, "update of '{}' by a tensor of another trace", state.name());
  if (next.type() != state.type()) {
    throw_user_error("update of state '{}': it is {}, the new value is {}: reshape or cast it",
                     state.name(), state.type().str(), next.type().str());
  }
  TracedState& known = traced(state);
  known.value = next.value();
  graph().set_update(known.node, next.value());
}

Tensor Trace::create_node(std::string_view op, std::vector<ir::Value> operands,
                          ir::Attributes attributes, const Location& where) {
  return emit_values(op, std::move(operands), std::move(attributes), where)[0];
}

Tensor Trace::full(ir::TensorType type, double value, Location where) {
  return create_node(
      "full", {}, {{"shape", type.shape.dims()}, {"dtype", type.dtype}, {"value", value}}, where);
}

Tensor Trace::iota(ir::TensorType type, int axis, Location where) {
  const int64_t from_left = axis < 0 ? axis + type.shape.rank() : axis;
  return create_node("iota", {},
                     {{"shape", type.shape.dims()}, {"dtype", type.dtype}, {"axis", from_left}},
                     where);
}

Tensor Trace::random_uniform(ir::Shape shape, Spread spread, Location where) {
  const int draw = num_draws_[scope_]++;
  const int64_t stream = stream_of(fmt::format("{}#{}", scope_, draw));
  Tensor part;
  if (spread == Spread::kSameOnAllRanks) {
    part = full({ir::DType::kI64, {}}, 0, where);
  } else if (batch_axes_.empty()) {
    part = full({ir::DType::kI64, {}}, static_cast<double>(part_), where);
  } else {
    for (const auto& [axis, size] : batch_axes_) {
      const Tensor place = coordinate(axis);
      part = part ? part * size + place : place;
    }
    if (num_parts_ > 1) {
      part = part * num_parts_ + part_;
    }
  }
  return create_node("philox_uniform", {read(seed_).value(), step().value(), part.value()},
                     {{"shape", shape.dims()}, {"stream", stream}}, where);
}

bool Trace::comes_from_inputs(const Tensor& tensor) const {
  const ir::Node* node = tensor.value().node;
  return node->is("input") || from_inputs_.contains(node);
}

Tensor Trace::step() {
  return {shared_from_this(), traced(step_).node->result()};
}

Tensor Trace::coordinate(std::string_view axis) {
  const auto [found, is_new] = coordinates_.try_emplace(
      std::string(axis), fmt::format("{}{}", ir::kCoordinatePrefix, axis),
      ir::TensorType{ir::DType::kI64, {}}, ir::StateRole::kBuffer, Initializer::constant(0));
  return read(found->second);
}

bool Trace::read_switch(std::shared_ptr<const bool> flag, std::string what) {
  const bool value = *flag;
  const bool is_known = std::any_of(switches_.begin(), switches_.end(),
                                    [&](const Switch& known) { return known.flag == flag; });
  if (!is_known) switches_.push_back({std::move(what), std::move(flag), value});
  return value;
}

ir::Provenance Trace::provenance(const Location& where) const {
  const Location& place = is_pinned_ ? pinned_ : where;
  return {place.file_name(), static_cast<int>(place.line()), scope_};
}

std::vector<Tensor> Trace::emit_values(std::string_view op, std::vector<ir::Value> operands,
                                       ir::Attributes attributes, const Location& where) {
  graph();
  const ir::Provenance place = provenance(where);
  for (; num_placed_switches_ < switches_.size(); ++num_placed_switches_) {
    switches_[num_placed_switches_].place = place;
  }
  builder_.set_provenance(place);
  builder_.set_phase(phase_);
  ir::Node* node = nullptr;
  const bool is_from_inputs = std::any_of(operands.begin(), operands.end(), [&](ir::Value operand) {
    return operand.node->is("input") || from_inputs_.contains(operand.node);
  });
  const bool is_narrow = precision_.is_narrow(op);
  bool is_narrowed = false;
  for (ir::Value& operand : operands) {
    if (!is_narrow || !precision_.narrows(operand)) continue;
    operand = narrowing_(builder_, operand, precision_.compute);
    is_narrowed = true;
  }
  try {
    node = builder_.emit_node(op, std::move(operands), std::move(attributes));
  } catch (const UserError& error) {
    throw_user_error("{}\n  at {}:{}{}{}", error.what(), place.file, place.line,
                     place.scope.empty() ? "" : " in ", place.scope);
  }
  std::vector<Tensor> results;
  for (int i = 0; i < node->num_results(); ++i) {
    const ir::Value result = node->result(i);
    const bool widens = is_narrowed && result.dtype() == precision_.compute;
    results.emplace_back(shared_from_this(),
                         widens ? builder_.convert(result, ir::DType::kF32) : result);
    if (is_from_inputs) from_inputs_.insert(results.back().value().node);
  }
  if (observer_) observer_(*node);
  return results;
}

// The dtype in which the operands of a pointwise op meet; none where each keeps its own.
std::optional<ir::DType> Trace::common_dtype(std::string_view op,
                                             const std::vector<TensorArgument>& operands,
                                             const std::vector<ir::Value>& values) const {
  const size_t first = op == "where" ? 1 : 0;  // the condition is bool
  if (operands.size() < first + 2 || !ops::op_named(op).has(ops::kPointwise)) return std::nullopt;
  std::vector<PromotedOperand> promoted;
  for (size_t i = first; i < operands.size(); ++i) {
    if (operands[i].number() != nullptr) {
      promoted.push_back(
          {operands[i].is_integer() ? ir::DType::kI64 : ir::DType::kF32, OperandRank::kNumber});
    } else {
      const bool is_scalar = values[i].shape().rank() == 0;
      promoted.push_back(
          {values[i].dtype(), is_scalar ? OperandRank::kScalar : OperandRank::kTensor});
    }
  }
  const std::optional<ir::DType> found = result_dtype(promoted);
  if (!found) {
    std::string types;
    for (size_t i = first; i < values.size(); ++i) {
      if (values[i]) types += (types.empty() ? "" : " and ") + values[i].type().str();
    }
    throw_user_error(
        "[{}] operands are {}: no dtype holds both: convert one, e.g. with to(i32)\n  at {}:{}", op,
        types, operands[first].where().file_name(), operands[first].where().line());
  }
  return found;
}

std::vector<ir::Value> Trace::resolve(std::string_view op,
                                      const std::vector<TensorArgument>& operands,
                                      const Location& where) {
  std::vector<ir::Value> values(operands.size());
  ir::DType dtype = ir::DType::kBool;  // of numbers: that of the first operand that is no bool
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].number() != nullptr) continue;
    const Tensor tensor = operands[i].state() ? read(*operands[i].state()) : *operands[i].tensor();
    if (&tensor.trace() != this) {
      throw_user_error(
          "[{}] operands of two traces at {}:{}: a tensor cannot leave the function "
          "given to compile()",
          op, operands[i].where().file_name(), operands[i].where().line());
    }
    values[i] = tensor.value();
    if (dtype == ir::DType::kBool) dtype = tensor.dtype();
  }
  const std::optional<ir::DType> common = common_dtype(op, operands, values);
  const size_t first = op == "where" ? 1 : 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].number() != nullptr) {
      const ir::TensorType type{common.value_or(dtype), {}};
      values[i] = full(type, *operands[i].number(), operands[i].where()).value();
    } else if (common && i >= first && values[i].dtype() != *common) {
      values[i] = create_node("convert", {values[i]}, {{"dtype", *common}}, where).value();
    }
  }
  return values;
}

std::vector<Tensor> Trace::emit_all(std::string_view op,
                                    const std::vector<TensorArgument>& operands,
                                    ir::Attributes attributes, const Location& where) {
  if (host_ops_ != nullptr && ops::find_op(op) == nullptr) {
    const auto found = host_ops_->find(op);
    if (found != host_ops_->end())
      return call_host_op(found->first, found->second, operands, where);
  }
  try {
    ops::op_named(op);
  } catch (const UserError& error) {
    const ir::Provenance place = provenance(where);
    throw_user_error(
        "{}; or have it done on the host: give CompileOptions::host_ops a function for it, or call "
        "one by trace::host_call\n  at {}:{}{}{}",
        error.what(), place.file, place.line, scope_.empty() ? "" : " in ", scope_);
  }
  return emit_values(op, resolve(op, operands, where), std::move(attributes), where);
}

HostValue Trace::read_on_host(HostRead read, const Location& where) {
  read.place = provenance(where);
  if (!host_reader_) {
    throw_user_error("graph break: {}\n  at {}:{}{}{}\n  {}", read.reason(), read.place.file,
                     read.place.line, scope_.empty() ? "" : " in ", scope_, read.advice());
  }
  HostValue value = host_reader_(read);
  host_reads_.push_back(std::move(read));
  return value;
}

bool Trace::has_backward() {
  const auto& nodes = graph().nodes();
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const auto& node) { return node->phase() == ir::Phase::kBackward; });
}

int Trace::part_of(const ir::Node& node) const {
  const auto found = parts_.find(&node);
  return found == parts_.end() ? -1 : found->second;
}

std::unique_ptr<ir::Graph> Trace::finish(const Outputs& outputs) {
  for (const TracedState& known : states_) {
    if (!known.state.is_same(step_)) continue;
    PhaseScope phase(*this, ir::Phase::kOptimizer);
    builder_.set_phase(phase_);
    builder_.set_provenance({});
    graph().set_update(known.node, builder_.add(known.node->result(), 1.0));
  }
  for (const auto& [name, tensor] : outputs) {
    check(&tensor.trace() == this, "output '{}' is of another trace", name);
    graph().add_output(name, tensor.value());
  }
  std::vector<ir::Value> read;
  for (const HostRead& each : host_reads_) {
    read.insert(read.end(), each.operands.begin(), each.operands.end());
  }
  const auto live = analysis::live_nodes(graph(), read);
  graph().erase_if([&](const ir::Node& node) { return !live.contains(&node); });
  graph().renumber();
  return std::move(graph_);
}

Trace& trace_of(std::string_view op, const std::vector<TensorArgument>& operands) {
  for (const TensorArgument& operand : operands) {
    if (operand.tensor() != nullptr) return operand.tensor()->trace();
  }
  const Location where = operands.empty() ? Location::current() : operands[0].where();
  throw_user_error(
      "[{}] none of the operands at {}:{} is a traced tensor: bring a parameter into "
      "the trace with x.trace().read(parameter)",
      op, where.file_name(), where.line());
}

std::vector<Tensor> emit_all(std::string_view op, const std::vector<TensorArgument>& operands,
                             ir::Attributes attributes) {
  return trace_of(op, operands).emit_all(op, operands, std::move(attributes), operands[0].where());
}

Tensor emit(std::string_view op, const std::vector<TensorArgument>& operands,
            ir::Attributes attributes) {
  return emit_all(op, operands, std::move(attributes))[0];
}

Tensor emit_at(const Location& where, std::string_view op,
               const std::vector<TensorArgument>& operands, ir::Attributes attributes) {
  return trace_of(op, operands).emit_all(op, operands, std::move(attributes), where)[0];
}

Scope::Scope(Trace& trace, std::string path)
    : trace_(trace), before_(std::exchange(trace.scope_, std::move(path))) {}

Pin::Pin(Trace& trace, const Location& where) : trace_(trace), is_outermost_(!trace.is_pinned_) {
  if (!is_outermost_) return;
  trace.pinned_ = where;
  trace.is_pinned_ = true;
}

Pin::~Pin() {
  if (is_outermost_) trace_.is_pinned_ = false;
}

Tensor Caller::read(const TensorArgument& operand) const {
  if (operand.state() != nullptr) return trace_.read(*operand.state());
  if (operand.tensor() != nullptr) return *operand.tensor();
  throw_user_error("a number where a tensor is needed\n  at {}:{}", operand.where().file_name(),
                   operand.where().line());
}

PartOfBatch::PartOfBatch(Trace& trace, int64_t part, int64_t count)
    : trace_(trace),
      num_draws_before_(trace.num_draws_),
      num_nodes_before_(trace.graph().num_nodes()) {
  trace.part_ = part;
  trace.num_parts_ = count;
}

PartOfBatch::~PartOfBatch() {
  const auto& nodes = trace_.graph_->nodes();
  for (size_t i = num_nodes_before_; i < nodes.size(); ++i) {
    trace_.parts_[nodes[i].get()] = static_cast<int>(trace_.part_);
  }
  // The next part draws from the streams of this one, at other places.
  if (trace_.part_ + 1 < trace_.num_parts_) trace_.num_draws_ = num_draws_before_;
  trace_.part_ = 0;
  trace_.num_parts_ = 1;
}

PhaseScope::PhaseScope(Trace& trace, ir::Phase phase)
    : trace_(trace), before_(std::exchange(trace.phase_, phase)) {}

}  // namespace monograph::trace
