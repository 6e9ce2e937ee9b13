#include "passes/simplify/fold_constants.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "ir/rewriter.h"
#include "ops/builder.h"
#include "ops/registry.h"
#include "passes/simplify/match.h"

namespace monograph::passes {
namespace {

constexpr int64_t kMaxElements = 65536;         // of an operand that is computed with as a whole
constexpr double kMaxExact = 9007199254740992;  // 2^53: integers up to it are exact in a double

bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// The value of all elements; nothing when they differ or a double does not hold them.
std::optional<double> uniform_value(const ir::Literal& literal) {
  if (literal.num_elements() == 0) return {};
  const double value = literal.get(0);
  if (!ir::is_floating(literal.type().dtype) && std::abs(value) >= kMaxExact) return {};
  for (int64_t i = 1; i < literal.num_elements(); ++i) {
    if (!same_bits(literal.get(i), value)) return {};
  }
  return value;
}

// The same node on constants: on operands of one element each (`as_scalars`), or of its own shapes.
std::optional<double> evaluate(const ops::OpDef& op, const ir::Node& node, bool as_scalars) {
  ir::Graph scratch;
  ops::Builder build(scratch);
  std::vector<ir::Value> operands;
  std::vector<ir::Literal> literals;
  for (const ir::Value operand : node.operands()) {
    const ir::TensorType type{operand.dtype(), as_scalars ? ir::Shape{} : operand.shape()};
    const double value = *constant_of(operand);
    operands.push_back(build.full(type, value));
    literals.push_back(ir::Literal::from(type, [&](int64_t) { return value; }));
  }
  const ir::Node* twin = build.emit_node(node.op(), std::move(operands), node.attributes());
  std::vector<const ir::Literal*> inputs;
  for (const ir::Literal& literal : literals) inputs.push_back(&literal);
  std::vector<ir::Literal> results;
  for (const ir::TensorType& type : twin->types()) results.emplace_back(type);
  op.reference(*twin, inputs, results);
  return uniform_value(results[0]);
}

std::optional<double> folded_value(const ops::OpDef& op, const ir::Node& node) {
  if (op.has(ops::kCreation) || op.has(ops::kLibrary) || op.has(ops::kCollective)) return {};
  if (op.has(ops::kPointwise)) return evaluate(op, node, true);
  const double first = *constant_of(node.operand(0));
  if (op.has(ops::kViewLike)) return first;
  const auto equals_first = [&](ir::Value operand) {
    return same_bits(*constant_of(operand), first);
  };
  const auto& operands = node.operands();
  if (op.has(ops::kGather)) {
    int64_t num_gathered = 0;
    for (const ir::Value operand : operands) num_gathered += operand.type().num_elements();
    // A result of more elements has gaps, which are zero.
    const bool is_uniform = std::all_of(operands.begin(), operands.end(), equals_first);
    if (!is_uniform || num_gathered != node.types()[0].num_elements()) return {};
    return first;
  }
  const bool is_small = node.operand(0).type().num_elements() <= kMaxElements;
  if (!op.has(ops::kReduction) || !is_small) return {};
  return evaluate(op, node, false);
}

}  // namespace

bool fold_constants(ir::Graph& graph, PassContext&) {
  ops::Builder build(graph);
  return ir::rewrite(graph, [&](ir::Node& node) -> ir::Rewrite {
    const ops::OpDef* op = ops::op_of(node);
    const auto is_full = [](ir::Value operand) { return constant_of(operand).has_value(); };
    const auto& operands = node.operands();
    if (op == nullptr || operands.empty() ||
        !std::all_of(operands.begin(), operands.end(), is_full)) {
      return ir::keep();
    }
    const auto value = folded_value(*op, node);
    if (!value) return ir::keep();
    std::vector<ir::Value> results;
    for (const ir::TensorType& type : node.types()) results.push_back(build.full(type, *value));
    return results;
  });
}

}  // namespace monograph::passes
