#pragma once

#include "ops/elements.h"
#include "ops/op_def.h"

// What the pointwise ops share: broadcasting, one dtype for all operands, element by element.
namespace monograph::ops {

// Operands of one dtype, no bool; the result has it too, and the broadcast shape.
std::vector<ir::TensorType> infer_pointwise(const InferContext& context);
// The same for operands that must be floating: exp, tanh, ...
std::vector<ir::TensorType> infer_floating(const InferContext& context);
// Operands of one dtype, bool too; the result is bool.
std::vector<ir::TensorType> infer_comparison(const InferContext& context);
// Operands and result are bool.
std::vector<ir::TensorType> infer_logical(const InferContext& context);
// Refuses operands `first`, `first` + 1, ... that are not of one dtype.
void check_one_dtype(const InferContext& context, int first = 0);

// Applies `function` to every element: in double, or in int64 where the operands are not floating;
// rounded at the store.
template <typename Function>
void reference_unary(Literals operands, std::span<ir::Literal> results, Function function);
// The same for two operands, broadcast.
template <typename Function>
void reference_binary(Literals operands, std::span<ir::Literal> results, Function function);

std::vector<Sample> samples_unary(double low, double high);
std::vector<Sample> samples_binary(double low = -2, double high = 2);  // same, row, column, scalar
std::vector<Sample> samples_comparison();                              // not differentiable
std::vector<Sample> samples_logical();
std::vector<BadSample> bad_samples_unary();       // an integer where a float is needed
std::vector<BadSample> bad_samples_binary();      // shapes, dtypes, arity
std::vector<BadSample> bad_samples_arithmetic();  // and bool
std::vector<BadSample> bad_samples_logical();

template <typename T, typename Function>
void apply_unary(Literals operands, std::span<ir::Literal> results, Function function) {
  const std::vector<T> x = read_elements<T>(*operands[0]);
  std::vector<T> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = static_cast<T>(function(x[i]));
  write_elements(y, results[0]);
}

template <typename Function>
void reference_unary(Literals operands, std::span<ir::Literal> results, Function function) {
  if (ir::is_floating(operands[0]->type().dtype)) {
    apply_unary<double>(operands, results, function);
  } else {
    apply_unary<int64_t>(operands, results, function);
  }
}

template <typename T, typename Function>
void apply_binary(Literals operands, std::span<ir::Literal> results, Function function) {
  const ir::Shape& shape = results[0].type().shape;
  const std::vector<T> a = read_broadcast<T>(*operands[0], shape);
  const std::vector<T> b = read_broadcast<T>(*operands[1], shape);
  std::vector<T> y(a.size());
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<T>(function(a[i], b[i]));
  write_elements(y, results[0]);
}

template <typename Function>
void reference_binary(Literals operands, std::span<ir::Literal> results, Function function) {
  if (ir::is_floating(operands[0]->type().dtype)) {
    apply_binary<double>(operands, results, function);
  } else {
    apply_binary<int64_t>(operands, results, function);
  }
}

}  // namespace monograph::ops
