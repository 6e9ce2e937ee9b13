#pragma once

#include "ops/op_def.h"

// What the pointwise ops share: broadcasting, one dtype for all operands, element by element.
namespace monograph::ops {

// Operands of one dtype; the result has it too, and the broadcast shape.
std::vector<ir::TensorType> infer_pointwise(const InferContext& context);
// The same for operands that must be floating: exp, tanh, ...
std::vector<ir::TensorType> infer_floating(const InferContext& context);
// Operands of one dtype; the result is bool.
std::vector<ir::TensorType> infer_comparison(const InferContext& context);

// Applies `function` to every element, operands broadcast; computed in double, rounded at the store.
void reference_unary(const ir::Node& node, Literals operands, std::span<ir::Literal> results,
                     double (*function)(double));
void reference_binary(const ir::Node& node, Literals operands, std::span<ir::Literal> results,
                      double (*function)(double, double));
// Calls visit(result element, element of each operand) for every element of the result.
void for_each_element(const ir::Node& node,
                      const std::function<void(int64_t, std::span<const int64_t>)>& visit);

std::vector<Sample> samples_unary(double low, double high);
std::vector<Sample> samples_binary(double low = -2, double high = 2);  // same, row, column, scalar
std::vector<Sample> samples_comparison();  // not differentiable
std::vector<BadSample> bad_samples_unary();     // an integer where a float is needed
std::vector<BadSample> bad_samples_binary();    // shapes, dtypes, arity

}  // namespace monograph::ops
