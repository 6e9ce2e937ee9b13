#include "passes/simplify/simplify_algebra.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/rewriter.h"
#include "ops/builder.h"
#include "ops/registry.h"
#include "passes/simplify/match.h"

namespace monograph::passes {
namespace {

using ir::DType;
using ir::Node;
using ir::Rewrite;
using ir::Shape;
using ir::Value;
using Ints = std::vector<int64_t>;

constexpr double kMaxExact = 9007199254740992;  // 2^53: integers up to it are exact in a double

// Significand bits and the largest exponent of what a dtype holds exactly; integers as such.
struct Range {
  int digits;
  int min_exponent, max_exponent;  // floating only
};
Range range_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return {1, 0, 1};
    case DType::kU8:
      return {8, 0, 8};
    case DType::kU16:
      return {16, 0, 16};
    case DType::kI32:
      return {31, 0, 31};
    case DType::kI64:
      return {63, 0, 63};
    case DType::kBF16:
      return {8, -133, 128};
    case DType::kF16:
      return {11, -24, 16};
    case DType::kF32:
      return {24, -149, 128};
    case DType::kF64:
      return {53, -1074, 1024};
  }
  return {};
}

// Whether every number of `from` is one of `to`.
bool is_exact_in(DType from, DType to) {
  if (from == to) return true;
  if (to == DType::kBool || (ir::is_floating(from) && !ir::is_floating(to))) return false;
  const Range a = range_of(from), b = range_of(to);
  return a.digits <= b.digits && a.min_exponent >= b.min_exponent &&
         a.max_exponent <= b.max_exponent;
}

class Simplifier {
 public:
  explicit Simplifier(ir::Graph& graph) : build_(graph) {}

  Rewrite visit(Node& node) {
    const Rewrite by_op = visit_op(node);
    if (!by_op.is_kept()) return by_op;
    if (ops::has_trait(node, ops::kPointwise)) return without_expands(node);
    return ir::keep();
  }

 private:
  Rewrite visit_op(Node& node) {
    if (node.is("add")) return add(node);
    if (node.is("sub")) return sub(node);
    if (node.is("mul")) return mul(node);
    if (node.is("div")) return div(node);
    if (node.is("neg") || node.is("logical_not")) return twice(node);
    if (node.is("maximum") || node.is("minimum") || node.is("logical_and") ||
        node.is("logical_or")) {
      if (node.operand(0) == node.operand(1)) return node.operand(0);
      return ir::keep();
    }
    if (node.is("where")) return where(node);
    if (node.is("pow")) return pow(node);
    if (node.is("convert")) return convert(node);
    if (node.is("sum") || node.is("amax")) return reduction(node);
    return ir::keep();
  }

  // `value` as the whole result of the node, which may be of a larger shape.
  Value as_result(const Node& node, Value value) {
    return build_.expand(value, node.types()[0].shape);
  }

  Rewrite add(Node& node) {
    const Value x = node.operand(0);
    const auto constant = constant_of(node.operand(1));
    if (!constant) return ir::keep();
    if (*constant == 0) return as_result(node, x);
    const Node* inner = defined_by(x, "add");
    const auto inner_constant = inner != nullptr ? constant_of(inner->operand(1)) : std::nullopt;
    if (!inner_constant || !ir::is_integer(node.types()[0].dtype)) return ir::keep();
    return merged(node, *inner, *inner_constant + *constant);
  }

  Rewrite sub(Node& node) {
    const Value x = node.operand(0), y = node.operand(1);
    const auto constant = constant_of(y);
    if (constant == 0 && !std::signbit(*constant)) return as_result(node, x);  // -0 - -0 is 0
    if (x == y && ir::is_integer(x.dtype())) return build_.full(node.types()[0], 0);
    return ir::keep();
  }

  Rewrite mul(Node& node) {
    const Value x = node.operand(0);
    const auto constant = constant_of(node.operand(1));
    if (!constant) return ir::keep();
    const bool is_integer = ir::is_integer(node.types()[0].dtype);
    if (*constant == 1) return as_result(node, x);
    if (*constant == -1) return build_.neg(as_result(node, x));
    if (*constant == 0 && is_integer) return build_.full(node.types()[0], 0);
    const Node* inner = defined_by(x, "mul");
    const auto inner_constant = inner != nullptr ? constant_of(inner->operand(1)) : std::nullopt;
    if (!inner_constant) return ir::keep();
    if (!is_integer && !is_power_of_two(*constant) && !is_power_of_two(*inner_constant)) {
      return ir::keep();
    }
    return merged(node, *inner, *inner_constant * *constant);
  }

  // op(op(x, c), d) as op(x, constant), if the dtype holds the constant.
  Rewrite merged(Node& node, const Node& inner, double constant) {
    const DType dtype = node.types()[0].dtype;
    const bool is_held = ir::is_floating(dtype)
                             ? std::isfinite(constant) && ir::round_to(dtype, constant) == constant
                             : std::abs(constant) < kMaxExact && is_in_range(dtype, constant);
    if (!is_held) return ir::keep();
    return build_.emit(node.op(),
                       {as_result(node, inner.operand(0)), build_.scalar(dtype, constant)});
  }

  static bool is_in_range(DType dtype, double value) {
    const double limit = std::ldexp(1.0, range_of(dtype).digits);
    const bool is_signed = dtype == DType::kI32 || dtype == DType::kI64;
    return value < limit && (is_signed ? value >= -limit : value >= 0);
  }

  Rewrite div(Node& node) {
    const Value x = node.operand(0);
    const auto constant = constant_of(node.operand(1));
    if (!constant || !is_power_of_two(*constant)) return ir::keep();
    if (*constant == 1) return as_result(node, x);
    if (*constant == -1) return build_.neg(as_result(node, x));
    const double inverse = 1 / *constant;
    if (ir::round_to(x.dtype(), inverse) != inverse) return ir::keep();
    return build_.mul(x, build_.full(node.operand(1).type(), inverse));
  }

  Rewrite twice(Node& node) {
    const Node* inner = defined_by(node.operand(0), node.op());
    if (inner == nullptr) return ir::keep();
    return inner->operand(0);
  }

  Rewrite where(Node& node) {
    const auto condition = constant_of(node.operand(0));
    const Value a = node.operand(1), b = node.operand(2);
    if (condition) return as_result(node, *condition != 0 ? a : b);
    if (a == b) return as_result(node, a);
    return ir::keep();
  }

  Rewrite pow(Node& node) {
    const Value x = node.operand(0);
    const auto exponent = constant_of(node.operand(1));
    if (!exponent) return ir::keep();
    if (*exponent == 0) return build_.full(node.types()[0], 1);
    if (*exponent == 1) return as_result(node, x);
    if (*exponent == 2) return as_result(node, build_.mul(x, x));
    if (*exponent == -1) return as_result(node, build_.emit("reciprocal", {x}));
    return ir::keep();
  }

  Rewrite convert(Node& node) {
    const Node* inner = defined_by(node.operand(0), "convert");
    if (inner == nullptr) return ir::keep();
    const Value x = inner->operand(0);
    if (!is_exact_in(x.dtype(), inner->types()[0].dtype)) return ir::keep();
    return build_.convert(x, node.types()[0].dtype);
  }

  Rewrite reduction(Node& node) {
    const Value x = node.operand(0);
    const auto& axes = node.attribute<Ints>("axes");
    if (x.dtype() != node.types()[0].dtype) return ir::keep();
    if (std::all_of(axes.begin(), axes.end(), [&](int64_t axis) { return x.shape()[axis] == 1; })) {
      return build_.reshape(x, node.types()[0].shape);
    }
    const Node* expanded = defined_by(x, "expand");
    if (expanded == nullptr || x.type().num_elements() == 0) return ir::keep();
    return expanded_reduction(node, expanded->operand(0));
  }

  // A reduction of expand(source): over the axes that expand made, all elements are equal.
  Rewrite expanded_reduction(Node& node, Value source) {
    const Shape& shape = node.operand(0).shape();
    Ints aligned(shape.rank() - source.shape().rank(), 1);
    aligned.insert(aligned.end(), source.shape().dims().begin(), source.shape().dims().end());
    Ints dims = shape.dims(), kept_axes;
    double count = 1;
    for (const int64_t axis : node.attribute<Ints>("axes")) {
      if (aligned[axis] == 1 && shape[static_cast<int>(axis)] != 1) {
        count *= static_cast<double>(shape[static_cast<int>(axis)]);
        dims[axis] = 1;
      } else {
        kept_axes.push_back(axis);
      }
    }
    if (count == 1 || ir::round_to(source.dtype(), count) != count) return ir::keep();
    Value value = build_.expand(build_.reshape(source, Shape(aligned)), Shape(dims));
    if (!kept_axes.empty()) value = build_.emit(node.op(), {value}, with_axes(kept_axes));
    value = build_.reshape(value, node.types()[0].shape);
    return node.is("sum") ? build_.mul(value, count) : value;
  }

  static ir::Attributes with_axes(Ints axes) {
    return {{"axes", std::move(axes)}, {"keepdim", true}};
  }

  // Pointwise ops broadcast by themselves: an expand before one is needed only for the shape.
  Rewrite without_expands(Node& node) {
    std::vector<Value> operands = node.operands();
    bool changed = false;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Node* expanded = defined_by(operands[i], "expand");
      if (expanded == nullptr) continue;
      const Value whole = std::exchange(operands[i], expanded->operand(0));
      if (broadcast_shape(operands) == node.types()[0].shape) {
        changed = true;
      } else {
        operands[i] = whole;
      }
    }
    if (!changed) return ir::keep();
    return build_.emit(node.op(), std::move(operands), node.attributes());
  }

  static Shape broadcast_shape(const std::vector<Value>& operands) {
    Shape shape;
    for (const Value operand : operands) {
      shape = ir::broadcast_shapes("expand", shape, operand.shape());
    }
    return shape;
  }

  ops::Builder build_;
};

}  // namespace

bool simplify_algebra(ir::Graph& graph, PassContext&) {
  const auto once = [&] {
    Simplifier simplifier(graph);
    return ir::rewrite(graph, [&](Node& node) { return simplifier.visit(node); });
  };
  if (!once()) return false;
  while (once()) {
  }
  return true;
}

}  // namespace monograph::passes
