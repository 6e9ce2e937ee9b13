#include "ops/builder.h"

#include <numeric>

#include "ops/registry.h"

namespace monograph::ops {

using ir::Value;

ir::Node* Builder::emit_node(std::string_view op, std::vector<Value> operands,
                             ir::Attributes attributes) {
  std::vector<ir::TensorType> types;
  for (Value operand : operands) types.push_back(operand.type());
  std::vector<ir::TensorType> results = infer_types(op_named(op), types, attributes);
  ir::Node* node =
      graph_.add(std::string(op), std::move(operands), std::move(attributes), std::move(results));
  node->set_phase(phase_);
  node->set_provenance(provenance_);
  return node;
}

Value Builder::full(ir::TensorType type, double value) {
  return emit("full", {}, {{"shape", type.shape.dims()}, {"dtype", type.dtype}, {"value", value}});
}

Value Builder::convert(Value a, ir::DType dtype) {
  return a.dtype() == dtype ? a : emit("convert", {a}, {{"dtype", dtype}});
}

Value Builder::reshape(Value a, ir::Shape shape) {
  return a.shape() == shape ? a : emit("reshape", {a}, {{"shape", shape.dims()}});
}

Value Builder::permute(Value a, std::vector<int64_t> axes) {
  return emit("permute", {a}, {{"axes", std::move(axes)}});
}

Value Builder::expand(Value a, ir::Shape shape) {
  return a.shape() == shape ? a : emit("expand", {a}, {{"shape", shape.dims()}});
}

Value Builder::sum(Value a, std::vector<int64_t> axes, bool keepdim) {
  return axes.empty() ? a : emit("sum", {a}, {{"axes", std::move(axes)}, {"keepdim", keepdim}});
}

Value Builder::amax(Value a, std::vector<int64_t> axes, bool keepdim) {
  return axes.empty() ? a : emit("amax", {a}, {{"axes", std::move(axes)}, {"keepdim", keepdim}});
}

Value Builder::transpose_last(Value a) {
  std::vector<int64_t> axes(a.shape().rank());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return permute(a, std::move(axes));
}

Value Builder::sum_to(Value a, const ir::Shape& shape) {
  const int extra = a.shape().rank() - shape.rank();
  std::vector<int64_t> leading(extra);
  std::iota(leading.begin(), leading.end(), 0);
  std::vector<int64_t> kept;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1 && a.shape()[axis + extra] != 1) kept.push_back(axis + extra);
  }
  if (leading.empty()) return sum(a, kept, true);
  if (kept.empty()) return sum(a, leading, false);
  leading.insert(leading.end(), kept.begin(), kept.end());
  return reshape(sum(a, leading, false), shape);
}

}  // namespace monograph::ops
