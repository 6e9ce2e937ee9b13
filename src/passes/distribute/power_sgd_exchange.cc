#include "passes/distribute/power_sgd_exchange.h"

#include <algorithm>

#include "ir/state_names.h"

namespace monograph::passes {
namespace {

using ir::DType;
using ir::Value;

// Of a column's square, what is left of it once others are taken out: less is rounding.
constexpr double kDependent = 1e-10;

// Gradients of one shape, which are multiplied together.
struct Batch {
  MatrixShape shape;
  int64_t rank = 0;
  std::vector<size_t> members;         // of the exchange
  std::vector<Value> states, factors;  // residuals and right factors, as states
  Value matrices;                      // [members, rows, columns]
  Value right, left;                   // Q and P: [members, columns, rank], [members, rows, rank]

  auto size() const { return static_cast<int64_t>(members.size()); }
};

Value stack(ExchangeBuilder& builder, const std::vector<Value>& parts, const MatrixShape& shape) {
  std::vector<Value> matrices;
  for (const Value part : parts) {
    matrices.push_back(builder.build().reshape(part, {1, shape.rows, shape.columns}));
  }
  return builder.cat(std::move(matrices));
}

std::vector<Batch> batches_of(const Exchange& exchange) {
  std::vector<Batch> batches;
  for (size_t i = 0; i < exchange.gradients.size(); ++i) {
    const MatrixShape shape = matrix_shape(exchange.gradients[i].value.shape());
    const auto is_its = [&](const Batch& batch) {
      return batch.shape.rows == shape.rows && batch.shape.columns == shape.columns;
    };
    auto batch = std::find_if(batches.begin(), batches.end(), is_its);
    if (batch == batches.end()) {
      batch = batches.insert(batches.end(), Batch());
      batch->shape = shape;
      batch->rank = std::min({exchange.compression.rank, shape.rows, shape.columns});
    }
    batch->members.push_back(i);
  }
  return batches;
}

// M, and Q as the step before has left it.
void begin(const Exchange& exchange, ExchangeBuilder& builder, Batch& batch) {
  ops::Builder& b = builder.build();
  std::vector<Value> totals;
  for (const size_t member : batch.members) {
    const Exchange::Gradient& gradient = exchange.gradients[member];
    batch.states.push_back(builder.state(ir::kResidualPrefix, gradient, gradient.value.type()));
    batch.factors.push_back(builder.state(ir::kFactorPrefix, gradient,
                                          {DType::kF32, {batch.shape.columns, batch.rank}}));
    totals.push_back(b.add(gradient.value, batch.states.back()));
  }
  batch.matrices = stack(builder, totals, batch.shape);
  const Value before = stack(builder, batch.factors, {batch.shape.columns, batch.rank});
  const Value drawn = b.add(builder.uniform(exchange.name_of(exchange.gradients[batch.members[0]]),
                                            before.shape(), ExchangeBuilder::Draw::kOfAll),
                            -0.5);
  const Value squares = b.sum(b.mul(before, before), {1}, true);
  batch.right = b.where(b.emit("gt", {squares, b.scalar(DType::kF32, 0)}), before, drawn);
}

// One all_reduce of what all batches have.
void all_reduce(ExchangeBuilder& builder, std::vector<Value*> values) {
  std::vector<Value> pieces;
  for (const Value* value : values) pieces.push_back(builder.flat(*value));
  const Value sum = builder.all_reduce(builder.cat(std::move(pieces)));
  int64_t begin = 0;
  for (Value* value : values) {
    const int64_t end = begin + value->type().num_elements();
    *value = builder.build().reshape(builder.slice(sum, 0, begin, end), value->shape());
    begin = end;
  }
}

Value product(ops::Builder& b, Value left, Value right) {  // P R^T
  return b.matmul(left, b.transpose_last(right));
}

}  // namespace

MatrixShape matrix_shape(const ir::Shape& shape) {
  const int64_t columns = shape.rank() == 0 ? 1 : shape[-1];
  return {shape.num_elements() / std::max<int64_t>(columns, 1), columns};
}

bool is_worth_factors(const MatrixShape& shape, int64_t rank) {
  const int64_t columns = std::min({rank, shape.rows, shape.columns});
  return 2 * columns * (shape.rows + shape.columns) <= shape.rows * shape.columns;
}

Value orthogonalize(ExchangeBuilder& builder, Value p) {
  ops::Builder& b = builder.build();
  const int64_t rank = p.shape()[2];
  const Value zero = b.scalar(DType::kF32, 0);
  const Value before = b.sum(b.mul(p, p), {1}, true);  // squares, [B,1,r]
  std::vector<Value> columns;
  Value rest = p;
  for (int64_t i = 0; i < rank; ++i) {
    const Value column = builder.slice(rest, 2, 0, 1);
    const Value square = b.sum(b.mul(column, column), {1}, true);
    const Value least = b.mul(builder.slice(before, 2, i, i + 1), kDependent);
    const Value factor = b.where(b.emit("gt", {square, least}), b.emit("rsqrt", {square}), zero);
    columns.push_back(b.mul(column, factor));
    if (i + 1 == rank) break;
    rest = builder.slice(rest, 2, 1, rank - i);
    const Value along = b.sum(b.mul(columns.back(), rest), {1}, true);
    rest = b.sub(rest, b.mul(columns.back(), along));
  }
  return builder.cat(std::move(columns), 2);
}

std::vector<Value> power_sgd_all_reduce(const Exchange& exchange, ExchangeBuilder& builder) {
  ops::Builder& b = builder.build();
  std::vector<Batch> batches = batches_of(exchange);
  std::vector<Value*> left, right;
  for (Batch& batch : batches) {
    begin(exchange, builder, batch);
    batch.left = b.matmul(batch.matrices, batch.right);
    left.push_back(&batch.left);
  }
  all_reduce(builder, left);
  std::vector<Value> own;
  for (Batch& batch : batches) {
    batch.left = orthogonalize(builder, batch.left);
    batch.right = b.matmul(b.transpose_last(batch.matrices), batch.left);
    own.push_back(batch.right);
    right.push_back(&batch.right);
  }
  all_reduce(builder, right);
  std::vector<Value> results(exchange.gradients.size());
  for (size_t k = 0; k < batches.size(); ++k) {
    const Batch& batch = batches[k];
    const Value rest = b.sub(batch.matrices, product(b, batch.left, own[k]));
    const Value sums = product(b, batch.left, batch.right);
    const Value next = b.mul(batch.right, 1.0 / static_cast<double>(exchange.size));
    for (int64_t i = 0; i < batch.size(); ++i) {
      const auto put = [&](Value all, Value state) {
        builder.update(state, b.reshape(builder.slice(all, 0, i, i + 1), state.shape()));
      };
      put(rest, batch.states[i]);
      put(next, batch.factors[i]);
      results[batch.members[i]] =
          b.reshape(builder.slice(sums, 0, i, i + 1), batch.states[i].shape());
    }
  }
  return results;
}

}  // namespace monograph::passes
