#include <algorithm>
#include <numeric>

#include "ops/elements.h"
#include "ops/index/ids.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  const auto num_ids = context.attribute<int64_t>("num_ids");
  const int64_t num_positions = context.operands[0].num_elements();
  check_ids_dtype(context, 0);
  if (num_ids < 1) context.fail("num_ids {}: give the number of different ids, from 1", num_ids);
  if (num_ids >= INT32_MAX || num_positions >= INT32_MAX) {
    context.fail("{} with num_ids {}: positions and offsets are i32, so both stay below 2^31 - 1",
                 context.operands[0].str(), num_ids);
  }
  return {{ir::DType::kI32, {num_positions}}, {ir::DType::kI32, {num_ids + 1}}};
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const auto num_ids = node.attribute<int64_t>("num_ids");
  const std::vector<int64_t> ids = read_ids(node, *operands[0], num_ids);
  std::vector<int64_t> order(ids.size()), offsets(num_ids + 1);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return ids[a] < ids[b]; });
  for (int64_t id : ids) ++offsets[id + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  write_elements(order, results[0]);
  write_elements(offsets, results[1]);
}

std::vector<Sample> samples() {
  const auto sample = [](ir::TensorType ids, int64_t num_ids) {
    return Sample{.operands = {{std::move(ids), 0, static_cast<double>(num_ids - 1)}},
                  .attributes = {{"num_ids", num_ids}},
                  .check_gradient = false};
  };
  return {sample({ir::DType::kI64, {2, 8}}, 5), sample({ir::DType::kI32, {9}}, 40),
          sample({ir::DType::kI64, {}}, 1)};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType ids{ir::DType::kI64, {4}};
  return {{{{ir::DType::kF32, {4}}},
           {{"num_ids", int64_t{3}}},
           "operand 'ids' is f32[4]: it takes i32 or i64"},
          {{ids}, {{"num_ids", int64_t{0}}}, "num_ids 0: give the number of different ids"},
          {{ids}, {{"num_ids", int64_t{1} << 40}}, "positions and offsets are i32"}};
}

}  // namespace

// sort_ids(ids, num_ids) -> order, offsets
const OpDef sort_ids_op = {
    .name = "sort_ids",
    .doc =
        "The positions of the flattened ids sorted by id, equal ids in their order (order, "
        "i32[N]), and where each id's positions begin (offsets, i32[num_ids + 1]).",
    .operands = {"ids"},
    .attributes = {{"num_ids", AttributeKind::kInt}},
    .traits = kLibrary,
    .infer = infer,
    .reference = reference,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
