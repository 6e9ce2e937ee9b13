#include "verify/random_graph.h"

#include <algorithm>
#include <random>

#include "base/error.h"
#include "ops/builder.h"
#include "ops/registry.h"

namespace monograph::verify {
namespace {

using ir::DType;
using ir::Shape;
using ir::Value;

class Generator {
 public:
  Generator(ir::Graph& graph, const RandomGraphOptions& options)
      : build_(graph), options_(options), random_(options.seed) {
    for (const ops::OpDef* op : ops::all_ops()) {
      if (op->has(ops::kStart) || op->has(ops::kDone)) continue;  // passes make them
      if (op->name == "send" || op->name == "recv") continue;     // of two graphs that fit together
      if (op->has(ops::kCollective)) {
        if (options.num_ranks > 0) collectives_.push_back(op);
        continue;
      }
      if (!options.allows_op || options.allows_op(*op)) ops_.push_back(op);
    }
  }

  void run() {
    add_placeholders();
    for (int i = 0; i < 6; ++i) add_constant();
    // Most draws do not fit together and are refused by the op.
    const int wanted = build_.graph().num_nodes() + options_.num_nodes;
    for (int draws = 0; build_.graph().num_nodes() < wanted && draws < 100000; ++draws) {
      if (below(12) == 0) add_constant();
      if (!collectives_.empty() && below(6) == 0) {
        try_node(*pick(collectives_));
      } else if (below(8) == 0) {
        try_sample(*pick(ops_));
      } else {
        try_node(*pick(ops_));
      }
    }
    add_roots();
  }

 private:
  size_t below(size_t limit) { return random_() % limit; }
  template <typename T>
  const T& pick(const std::vector<T>& list) {
    return list[below(list.size())];
  }

  bool allows(DType dtype) const { return !options_.allows_dtype || options_.allows_dtype(dtype); }

  void add_placeholders() {
    for (const Shape& shape :
         {Shape{4, 6}, Shape{6}, Shape{4, 1}, Shape{}, Shape{2, 4, 6}, Shape{3, 2, 5}}) {
      add_input(DType::kF32, shape);
    }
    for (const DType dtype : {DType::kI64, DType::kBF16, DType::kBool, DType::kF64}) {
      if (allows(dtype)) add_input(dtype, {4, 6});
    }
    if (allows(DType::kI64)) {
      add_input(DType::kI64, {});
      add_input(DType::kI64, {4});
    }
    state_ = build_.graph().add_state("state", {DType::kF32, {4, 6}}, ir::StateRole::kBuffer);
    values_.push_back(state_->result());
  }

  void add_input(DType dtype, Shape shape) {
    const std::string name = fmt::format("x{}", values_.size());
    values_.push_back(build_.graph().add_input(name, {dtype, std::move(shape)})->result());
  }

  void add_constant() {
    static const std::vector<double> kConstants = {0, 1, -1, 2, 4, 3, 8};
    static const std::vector<double> kFractions = {0.5, 0.125, -0.0, 0.3, 1.5};
    const DType dtype = pick(values_).dtype();
    const bool is_fraction = ir::is_floating(dtype) && below(3) == 0;
    const double value = dtype == DType::kBool ? static_cast<double>(below(2))
                                               : pick(is_fraction ? kFractions : kConstants);
    values_.push_back(build_.full({dtype, below(3) == 0 ? pick(values_).shape() : Shape{}}, value));
  }

  void try_node(const ops::OpDef& op) {
    size_t num_operands = op.operands.size();
    if (op.is_variadic()) num_operands += below(3);
    std::vector<Value> operands;
    for (size_t i = 0; i < num_operands; ++i) operands.push_back(pick_operand(operands));
    ir::Attributes attributes;
    for (const ops::AttributeSpec& spec : op.attributes) {
      if (op.has(ops::kCollective) && spec.is_optional) continue;  // of units of sharded training
      attributes[std::string(spec.name)] = op.has(ops::kCollective)
                                               ? attribute_of_collective(spec)
                                               : random_attribute(spec, operands);
    }
    try_node(op, operands, attributes);
  }

  // One of the op's own samples: those of convolutions and attention hardly arise by chance.
  void try_sample(const ops::OpDef& op) {
    const std::vector<ops::Sample> samples = op.samples();
    if (samples.empty()) return;
    const ops::Sample& sample = pick(samples);
    std::vector<Value> operands;
    for (const ops::SampleOperand& operand : sample.operands) {
      if (!allows(operand.type.dtype)) return;
      operands.push_back(value_of(operand.type));
    }
    try_node(op, operands, sample.attributes);
  }

  // The newest value of the type, or a new input.
  Value value_of(const ir::TensorType& type) {
    for (auto value = values_.rbegin(); value != values_.rend(); ++value) {
      if (value->type() == type) return *value;
    }
    add_input(type.dtype, type.shape);
    return values_.back();
  }

  void try_node(const ops::OpDef& op, const std::vector<Value>& operands,
                const ir::Attributes& attributes) {
    build_.set_phase(static_cast<ir::Phase>(below(3)));
    try {
      ir::Node* node = build_.emit_node(op.name, operands, attributes);
      for (int i = 0; i < node->num_results(); ++i) {
        const ir::TensorType& type = node->types()[i];
        if (type.num_elements() <= 200 && allows(type.dtype)) values_.push_back(node->result(i));
      }
    } catch (const UserError&) {
    }
  }

  // Often one of the last values, so that patterns of nodes on nodes arise, or the operand before.
  Value pick_operand(const std::vector<Value>& before) {
    if (!before.empty() && below(8) == 0) return before.back();
    if (below(2) == 0)
      return values_[values_.size() - 1 - below(std::min<size_t>(8, values_.size()))];
    return pick(values_);
  }

  ir::Attribute random_attribute(const ops::AttributeSpec& spec,
                                 const std::vector<Value>& operands) {
    switch (spec.kind) {
      case ops::AttributeKind::kBool:
        return below(2) == 0;
      case ops::AttributeKind::kInt:
        return static_cast<int64_t>(below(5));
      case ops::AttributeKind::kFloat:
        return static_cast<double>(below(5));
      case ops::AttributeKind::kString:
        return std::string("none");
      case ops::AttributeKind::kDType:
        return pick(values_).dtype();
      case ops::AttributeKind::kShapes:
        return std::vector<Shape>{pick(values_).shape()};
      case ops::AttributeKind::kInts:
        break;
    }
    if (spec.name == "axes") return random_axes(operands);
    if (spec.name == "sizes") return std::vector<int64_t>{1 + int64_t(below(3)), int64_t(below(4))};
    return random_shape(operands);
  }

  ir::Attribute attribute_of_collective(const ops::AttributeSpec& spec) {
    static const std::vector<std::string> kReductions = {"sum", "max", "min"};
    if (spec.name == "axis") return std::string("data");
    if (spec.name == "size") return int64_t{options_.num_ranks};
    if (spec.kind == ops::AttributeKind::kString) return pick(kReductions);
    return static_cast<int64_t>(below(static_cast<size_t>(options_.num_ranks)));  // a rank
  }

  std::vector<int64_t> random_axes(const std::vector<Value>& operands) {
    std::vector<int64_t> axes;
    const int rank = operands.empty() ? 2 : operands[0].shape().rank();
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
    std::shuffle(axes.begin(), axes.end(), random_);
    if (below(4) == 0) return axes;  // of a permute
    axes.resize(below(axes.size() + 1));
    std::sort(axes.begin(), axes.end());
    return axes;
  }

  std::vector<int64_t> random_shape(const std::vector<Value>& operands) {
    const Shape shape =
        operands.empty() || below(2) == 0 ? pick(values_).shape() : operands[0].shape();
    std::vector<int64_t> dims = shape.dims();
    const size_t kind = below(4);
    if (kind == 0) return {shape.num_elements()};
    if (kind == 1) dims.insert(dims.begin() + static_cast<int64_t>(below(dims.size() + 1)), 1);
    if (kind == 2) std::reverse(dims.begin(), dims.end());
    return dims;
  }

  // Most values that nothing uses are outputs; the rest are dead.
  void add_roots() {
    ir::Graph& graph = build_.graph();
    const auto users = ir::users_of(graph);
    for (const Value value : values_) {
      if (users.contains(value) || below(4) == 0) continue;
      graph.add_output(fmt::format("y{}", graph.outputs().size()), value);
    }
    for (auto value = values_.rbegin(); value != values_.rend(); ++value) {
      if (value->type() != state_->types()[0]) continue;
      graph.set_update(state_, *value);
      break;
    }
  }

  ops::Builder build_;
  const RandomGraphOptions& options_;
  std::mt19937_64 random_;
  std::vector<const ops::OpDef*> ops_, collectives_;
  std::vector<Value> values_;
  ir::Node* state_ = nullptr;
};

}  // namespace

std::unique_ptr<ir::Graph> random_graph(const RandomGraphOptions& options) {
  auto graph = std::make_unique<ir::Graph>("random");
  Generator(*graph, options).run();
  return graph;
}

std::map<std::string, ir::Literal> random_values(const std::vector<ir::Node*>& placeholders,
                                                 uint64_t seed, int rank) {
  std::mt19937_64 random(seed);
  std::map<std::string, ir::Literal> values;
  for (const ir::Node* node : placeholders) {
    const ir::TensorType& type = node->types()[0];
    const double shift = node->is("input") ? 0.25 * rank : 0;
    values.emplace(node->name(), ir::Literal::from(type, [&](int64_t) {
                     const auto number = static_cast<double>(random() % 4001);
                     if (type.dtype == DType::kBool) return static_cast<double>(random() % 2);
                     return ir::is_floating(type.dtype) ? number / 1000 - 2 + shift
                                                        : static_cast<double>(random() % 4);
                   }));
  }
  return values;
}

}  // namespace monograph::verify
