#include "runtime/cpu/gemm.h"

#include <dnnl.h>

#include <algorithm>

#include "base/error.h"

namespace monograph::runtime {
namespace {

// Measured on two cores: items below this many multiplications run faster one a thread.
constexpr int64_t kSmallItem = int64_t{1} << 24;

}  // namespace

Gemm::Gemm(const ir::GemmStep& step, const void* a, const void* b, void* c, const void* bias)
    : step_(step), a_(a), b_(b), c_(c), bias_(bias) {
  check(step.dtype == ir::DType::kF32 || step.dtype == ir::DType::kF64, "gemm of {}",
        ir::dtype_name(step.dtype));
  check(step.batch_strides_a.size() == step.batch.size() &&
            step.batch_strides_b.size() == step.batch.size() &&
            step.batch_strides_c.size() == step.batch.size(),
        "gemm: batch strides for another number of batch axes than {}", step.batch.size());
  items_ = {{0, 0, 0}};
  for (size_t axis = 0; axis < step.batch.size(); ++axis) {
    std::vector<Item> next;
    for (const Item& item : items_) {
      for (int64_t i = 0; i < step.batch[axis]; ++i) {
        next.push_back({item.a + i * step.batch_strides_a[axis],
                        item.b + i * step.batch_strides_b[axis],
                        item.c + i * step.batch_strides_c[axis]});
      }
    }
    items_ = std::move(next);
  }
  is_parallel_over_items_ = items_.size() > 1 && step.m * step.n * step.k <= kSmallItem;
}

void Gemm::run() const {
  const auto num_items = static_cast<int64_t>(items_.size());
#pragma omp parallel for schedule(static) if (is_parallel_over_items_)
  for (int64_t i = 0; i < num_items; ++i) {
    step_.dtype == ir::DType::kF32 ? run_float(items_[i]) : run_double(items_[i]);
  }
}

void Gemm::run_float(const Item& item) const {
  const float* const a = static_cast<const float*>(a_) + item.a;
  const float* const b = static_cast<const float*>(b_) + item.b;
  float* const c = static_cast<float*>(c_) + item.c;
  const dnnl_status_t status =
      dnnl_sgemm(step_.transpose_a ? 'T' : 'N', step_.transpose_b ? 'T' : 'N', step_.m, step_.n,
                 step_.k, 1.0f, a, step_.lda, b, step_.ldb, 0.0f, c, step_.ldc);
  if (status != dnnl_success) {
    throw InternalError(fmt::format("dnnl_sgemm {}x{}x{} lda {} ldb {} ldc {}: status {}", step_.m,
                                    step_.n, step_.k, step_.lda, step_.ldb, step_.ldc,
                                    static_cast<int>(status)));
  }
  if (step_.has_bias) add_bias(c);
}

// For tests of gradients: no attempt at speed beyond the order of the loops.
void Gemm::run_double(const Item& item) const {
  const double* const a = static_cast<const double*>(a_) + item.a;
  const double* const b = static_cast<const double*>(b_) + item.b;
  double* const c = static_cast<double*>(c_) + item.c;
  for (int64_t i = 0; i < step_.m; ++i) {
    double* const row = c + i * step_.ldc;
    std::fill(row, row + step_.n, 0.0);
    for (int64_t k = 0; k < step_.k; ++k) {
      const double x = step_.transpose_a ? a[k * step_.lda + i] : a[i * step_.lda + k];
      for (int64_t j = 0; j < step_.n; ++j) {
        row[j] += x * (step_.transpose_b ? b[j * step_.ldb + k] : b[k * step_.ldb + j]);
      }
    }
  }
  if (step_.has_bias) add_bias(c);
}

template <typename T>
void Gemm::add_bias(T* c) const {
  const T* const bias = static_cast<const T*>(bias_);
#pragma omp parallel for schedule(static) if (step_.m * step_.n > (1 << 15))
  for (int64_t i = 0; i < step_.m; ++i) {
    T* const row = c + i * step_.ldc;
    if (step_.bias_along_rows) {
      const T x = bias[i];
#pragma omp simd
      for (int64_t j = 0; j < step_.n; ++j) row[j] += x;
    } else {
#pragma omp simd
      for (int64_t j = 0; j < step_.n; ++j) row[j] += bias[j];
    }
  }
}

}  // namespace monograph::runtime
