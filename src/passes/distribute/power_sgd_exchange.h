#pragma once

#include "passes/distribute/exchange_builder.h"

namespace monograph::passes {

// PowerSGD (Vogels et al., "PowerSGD: practical low-rank gradient compression for distributed
// optimization", 2019, algorithms 1 and 2): of a matrix M = e + x, with what was not sent before,
//   P = all_reduce(M Q); P = orthogonal columns of P; R = M^T P; Q' = all_reduce(R) / ranks
//   the sum over ranks is P (all_reduce(R))^T; e' = M - P R^T
// Q' is where the next step begins. A column of Q that is zero, as all are at first, is drawn anew.

// The rows and columns that a gradient has as a matrix: the last axis against the others.
struct MatrixShape {
  int64_t rows = 0, columns = 0;
};
MatrixShape matrix_shape(const ir::Shape& shape);
// Whether factors are less than half of the matrix, as PyTorch's hook asks for.
bool is_worth_factors(const MatrixShape& shape, int64_t rank);

// The sum over the ranks of each gradient, as far as factors of that rank have it.
std::vector<ir::Value> power_sgd_all_reduce(const Exchange& exchange, ExchangeBuilder& builder);

// p[B,n,r] with columns of length one at right angles (modified Gram-Schmidt); those that depend on
// the columns before them, up to rounding, are zero.
ir::Value orthogonalize(ExchangeBuilder& builder, ir::Value p);

}  // namespace monograph::passes
