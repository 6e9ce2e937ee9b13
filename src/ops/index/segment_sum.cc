#include <algorithm>

#include "ops/division.h"
#include "ops/elements.h"
#include "ops/index/ids.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType& values = context.operands[0];
  const ir::TensorType &order = context.operands[1], &offsets = context.operands[2];
  if (values.shape.rank() < 1 || !ir::is_floating(values.dtype)) {
    context.fail("operand 'values' is {}: it takes a floating dtype and [...,columns]",
                 values.str());
  }
  const int64_t num_columns = values.shape[-1];
  const int64_t num_rows = values.num_elements() / std::max<int64_t>(num_columns, 1);
  if (order != ir::TensorType{ir::DType::kI32, {num_rows}}) {
    context.fail("operand 'order' is {}: for values {} it takes i32[{}]", order.str(), values.str(),
                 num_rows);
  }
  if (offsets.dtype != ir::DType::kI32 || offsets.shape.rank() != 1 || offsets.shape[0] < 2) {
    context.fail("operand 'offsets' is {}: it takes i32[segments + 1]", offsets.str());
  }
  return {{values.dtype, {offsets.shape[0] - 1, num_columns}}};
}

// T is what the sums are held in: float, but double for f64.
template <typename T>
void sum_segments(const ir::Node& node, Literals operands, ir::Literal& result) {
  const std::vector<double> values = read_elements<double>(*operands[0]);
  const int64_t num_rows = operands[1]->num_elements();
  const std::vector<int64_t> order = read_ids(node, *operands[1], num_rows);
  const std::vector<int64_t> offsets = read_ids(node, *operands[2], num_rows + 1);
  const int64_t num_columns = result.type().shape[1];
  std::vector<double> sums;
  for (size_t segment = 0; segment + 1 < offsets.size(); ++segment) {
    std::vector<T> row(num_columns);
    for (int64_t s = offsets[segment]; s < offsets[segment + 1]; ++s) {
      for (int64_t c = 0; c < num_columns; ++c) {
        row[c] += static_cast<T>(values[order[s] * num_columns + c]);
      }
    }
    sums.insert(sums.end(), row.begin(), row.end());
  }
  write_elements(sums, result);
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  if (operands[0]->type().dtype == ir::DType::kF64) {
    sum_segments<double>(node, operands, results[0]);
  } else {
    sum_segments<float>(node, operands, results[0]);
  }
}

// By columns.
std::optional<Division> placements(const DivisionContext& c) {
  using ir::Placement;
  const Placement& values = c.given[0];
  if (!values.is_shard() || values.dim != c.shape(0).rank() - 1) return {};
  return c.of({values, Placement::replicate(), Placement::replicate()},
              Placement::shard(1, values.blocks));
}

std::vector<Sample> samples() {
  const auto sample = [](ir::TensorType values, int64_t num_rows, int64_t num_segments) {
    const auto rows = static_cast<double>(num_rows);
    return Sample{.operands = {{std::move(values)},
                               {{ir::DType::kI32, {num_rows}}, 0, rows - 1},
                               {{ir::DType::kI32, {num_segments + 1}}, 0, rows}},
                  .attributes = {},
                  .check_gradient = false};
  };
  return {sample({ir::DType::kF32, {2, 4, 3}}, 8, 6), sample({ir::DType::kF32, {9, 16}}, 9, 40),
          sample({ir::DType::kF64, {5, 1}}, 5, 3), sample({ir::DType::kBF16, {6, 8}}, 6, 4)};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType values{ir::DType::kF32, {4, 3}};
  const ir::TensorType order{ir::DType::kI32, {4}}, offsets{ir::DType::kI32, {6}};
  return {{{values, {ir::DType::kI32, {3}}, offsets},
           {},
           "operand 'order' is i32[3]: for values f32[4,3] it takes i32[4]"},
          {{values, order, {ir::DType::kI64, {6}}}, {}, "operand 'offsets' is i64[6]"},
          {{{ir::DType::kI64, {4, 3}}, order, offsets},
           {},
           "operand 'values' is i64[4,3]: it takes a floating dtype"}};
}

}  // namespace

// segment_sum(values, order, offsets)[v] = sum of values[order[s]] for s in
// offsets[v]..offsets[v+1]-1
const OpDef segment_sum_op = {
    .name = "segment_sum",
    .doc =
        "Row v is the sum of the rows values[order[s]] for s from offsets[v] to offsets[v+1] - 1, "
        "added in that order in float32 (float64 for f64). With sort_ids, the gradient of "
        "embedding.",
    .operands = {"values", "order", "offsets"},
    .attributes = {},
    .traits = 0,
    .infer = infer,
    .reference = reference,
    .placements = placements,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
