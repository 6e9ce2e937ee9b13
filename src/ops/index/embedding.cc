#include <algorithm>

#include "ops/builder.h"
#include "ops/division.h"
#include "ops/index/ids.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType& weight = context.operands[0];
  if (weight.shape.rank() != 2) {
    context.fail("operand 'weight' is {}: it takes rank 2, [rows, columns]", weight.str());
  }
  check_ids_dtype(context, 1);
  std::vector<int64_t> dims = context.shape(1).dims();
  dims.push_back(weight.shape[1]);
  return {{weight.dtype, ir::Shape(std::move(dims))}};
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const ir::TensorType& weight = operands[0]->type();
  const int64_t row_bytes = weight.shape[1] * ir::dtype_bytes(weight.dtype);
  std::byte* place = results[0].data();
  for (int64_t id : read_ids(node, *operands[1], weight.shape[0])) {
    place = std::copy_n(operands[0]->data() + id * row_bytes, row_bytes, place);
  }
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  const int64_t num_rows = node.operand(0).shape()[0];
  ir::Node* sorted = b.emit_node("sort_ids", {node.operand(1)}, {{"num_ids", num_rows}});
  return {b.emit("segment_sum", {cotangents[0], sorted->result(0), sorted->result(1)}), {}};
}

Cost cost(const ir::Node& node) {
  const auto ids_bytes = static_cast<double>(node.operand(1).type().num_bytes());
  const auto rows_bytes = static_cast<double>(node.types()[0].num_bytes());
  return {.flops = 0, .bytes = ids_bytes + 2 * rows_bytes};
}

// Of a part of the rows: those of others' ids are zeros.
std::optional<Division> placements(const DivisionContext& c) {
  using ir::Placement;
  const Placement &weight = c.given[0], whole = Placement::replicate();
  if (!weight.is_shard() || weight.blocks != 1) return {};
  if (weight.dim == 1) {
    return c.of({weight, whole}, Placement::shard(c.result_shape().rank() - 1));
  }
  Division division = c.of({weight, whole}, Placement::partial());
  division.local = [](Builder& build, std::span<const ir::Value> operands, ir::Value place) {
    const ir::Value rows = operands[0];
    const OwnIndex own = own_index(build, operands[1], place, rows.shape()[0]);
    const ir::Value found = build.emit("embedding", {rows, own.index});
    std::vector<int64_t> dims = operands[1].shape().dims();
    dims.push_back(1);
    const ir::Value is_own = build.reshape(own.is_own, ir::Shape(std::move(dims)));
    return std::vector{build.where(is_own, found, build.scalar(found.dtype(), 0))};
  };
  return division;
}

std::vector<Sample> samples() {
  const auto sample = [](ir::TensorType weight, ir::TensorType ids, bool gradient) {
    const auto last = static_cast<double>(weight.shape[0] - 1);
    return Sample{
        .operands = {{weight}, {ids, 0, last}}, .attributes = {}, .check_gradient = gradient};
  };
  using ir::DType;
  return {sample({DType::kF32, {5, 3}}, {DType::kI64, {2, 4}}, true),
          sample({DType::kF32, {7, 4}}, {DType::kI32, {6}}, true),
          sample({DType::kF32, {7, 4}}, {DType::kI32, {}}, true),
          sample({DType::kBF16, {4, 5}}, {DType::kI64, {3}}, false)};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType weight{ir::DType::kF32, {5, 3}};
  return {{{weight, {ir::DType::kF32, {2}}}, {}, "operand 'ids' is f32[2]: it takes i32 or i64"},
          {{{ir::DType::kF32, {5}}, {ir::DType::kI64, {2}}},
           {},
           "operand 'weight' is f32[5]: it takes rank 2"}};
}

}  // namespace

// embedding(weight, ids) = weight[ids]; d weight = segment_sum of the sorted ids
const OpDef embedding_op = {
    .name = "embedding",
    .doc =
        "The rows of weight[V,C] named by ids (i32 or i64, any shape): [...,C]. An id outside "
        "0..V-1 is an error.",
    .operands = {"weight", "ids"},
    .attributes = {},
    .traits = 0,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .cost = cost,
    .placements = placements,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
