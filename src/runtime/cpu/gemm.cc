#include "runtime/cpu/gemm.h"

#include <dnnl.h>

#include <algorithm>
#include <atomic>

#include "base/error.h"

namespace monograph::runtime {
namespace {

// Measured: tiles of 128 x 128 and more run within 5 % of the whole product; one parallel region a
// product, and no more, matters as much where other processes run.
constexpr int64_t kManyTiles = 16;
constexpr int64_t kTileSide = 128;
constexpr int64_t kSmallestSide = 64;                  // rather than leave a core idle
constexpr int64_t kTileAlignment = 16;                 // a vector of float32
constexpr int64_t kMaxWidenedColumns = 1024;           // panels that stay in cache
constexpr int64_t kWorthSplitting = int64_t{1} << 20;  // multiplications; less is done at once

struct TileSize {
  int64_t rows, columns;
};

int64_t half_of(int64_t extent) {
  return ((extent + 1) / 2 + kTileAlignment - 1) / kTileAlignment * kTileAlignment;
}

int64_t num_tiles(const ir::GemmStep& step, TileSize size) {
  return ((step.m + size.rows - 1) / size.rows) * ((step.n + size.columns - 1) / size.columns);
}

TileSize choose_tile(const ir::GemmStep& step, int64_t num_items) {
  TileSize size{std::max<int64_t>(step.m, 1), std::max<int64_t>(step.n, 1)};
  if (num_items * step.m * step.n * step.k <= kWorthSplitting) return size;
  for (const auto& [wanted, side] :
       {std::pair{kManyTiles, kTileSide}, {int64_t{2}, kSmallestSide}}) {
    while (num_items * num_tiles(step, size) < wanted) {
      int64_t& longer = size.rows >= size.columns ? size.rows : size.columns;
      if (longer < 2 * side) break;
      longer = half_of(longer);
    }
  }
  return size;
}

}  // namespace

Gemm::Gemm(const ir::GemmStep& step, const void* a, const void* b, void* c, const void* bias)
    : step_(step), a_(a), b_(b), c_(c), bias_(bias) {
  const bool is_bf16 = step.dtype == ir::DType::kBF16;
  check(is_bf16 || step.dtype == ir::DType::kF32 || step.dtype == ir::DType::kF64, "gemm of {}",
        ir::dtype_name(step.dtype));
  check(step.batch_strides_a.size() == step.batch.size() &&
            step.batch_strides_b.size() == step.batch.size() &&
            step.batch_strides_c.size() == step.batch.size(),
        "gemm: batch strides for another number of batch axes than {}", step.batch.size());
  int64_t num_items = 1;
  for (const int64_t extent : step.batch) num_items *= extent;
  TileSize size = choose_tile(step, num_items);
  if (is_bf16) size.columns = std::min(size.columns, kMaxWidenedColumns);
  for (int64_t item = 0; item < num_items; ++item) {
    int64_t a_offset = 0, b_offset = 0, c_offset = 0, rest = item;
    for (size_t axis = step.batch.size(); axis-- > 0; rest /= step.batch[axis]) {
      const int64_t i = rest % step.batch[axis];
      a_offset += i * step.batch_strides_a[axis];
      b_offset += i * step.batch_strides_b[axis];
      c_offset += i * step.batch_strides_c[axis];
    }
    add_tiles(a_offset, b_offset, c_offset, size.rows, size.columns);
  }
}

void Gemm::add_tiles(int64_t a, int64_t b, int64_t c, int64_t num_rows, int64_t num_columns) {
  for (int64_t row = 0; row < step_.m; row += num_rows) {
    for (int64_t column = 0; column < step_.n; column += num_columns) {
      tiles_.push_back(
          {a + row * (step_.transpose_a ? 1 : step_.lda),
           b + column * (step_.transpose_b ? step_.ldb : 1), c + row * step_.ldc + column, row,
           column, std::min(num_rows, step_.m - row), std::min(num_columns, step_.n - column)});
    }
  }
}

void Gemm::run() const {
  static std::atomic<int64_t> num_runs = 0;
  const int64_t serial = num_runs.fetch_add(1, std::memory_order_relaxed);
  const int count = num_tiles();
#pragma omp parallel for schedule(static) if (count > 1)
  for (int t = 0; t < count; ++t) {
    switch (step_.dtype) {
      case ir::DType::kF32:
        run_float(tiles_[t]);
        break;
      case ir::DType::kBF16:
        run_widened(tiles_[t], serial);
        break;
      default:
        run_double(tiles_[t]);
    }
  }
}

// Inside a parallel region oneDNN uses the calling thread alone.
void Gemm::run_float(const Tile& tile) const {
  float* const c = static_cast<float*>(c_) + tile.c;
  const dnnl_status_t status =
      dnnl_sgemm(step_.transpose_a ? 'T' : 'N', step_.transpose_b ? 'T' : 'N', tile.num_rows,
                 tile.num_columns, step_.k, 1.0f, static_cast<const float*>(a_) + tile.a, step_.lda,
                 static_cast<const float*>(b_) + tile.b, step_.ldb, step_.accumulates ? 1.0f : 0.0f,
                 c, step_.ldc);
  check(status == dnnl_success, "dnnl_sgemm {}x{}x{} lda {} ldb {} ldc {}: status {}",
        tile.num_rows, tile.num_columns, step_.k, step_.lda, step_.ldb, step_.ldc,
        static_cast<int>(status));
  if (step_.has_bias) add_bias(c, tile);
}

// For tests of gradients: no attempt at speed beyond the order of the loops.
void Gemm::run_double(const Tile& tile) const {
  const double* const a = static_cast<const double*>(a_) + tile.a;
  const double* const b = static_cast<const double*>(b_) + tile.b;
  double* const c = static_cast<double*>(c_) + tile.c;
  for (int64_t i = 0; i < tile.num_rows; ++i) {
    double* const row = c + i * step_.ldc;
    if (!step_.accumulates) std::fill(row, row + tile.num_columns, 0.0);
    for (int64_t k = 0; k < step_.k; ++k) {
      const double x = step_.transpose_a ? a[k * step_.lda + i] : a[i * step_.lda + k];
      for (int64_t j = 0; j < tile.num_columns; ++j) {
        row[j] += x * (step_.transpose_b ? b[j * step_.ldb + k] : b[k * step_.ldb + j]);
      }
    }
  }
  if (step_.has_bias) add_bias(c, tile);
}

// While the tile is in cache.
template <typename T>
void Gemm::add_bias(T* c, const Tile& tile) const {
  const T* const bias = static_cast<const T*>(bias_);
  for (int64_t i = 0; i < tile.num_rows; ++i) {
    T* const row = c + i * step_.ldc;
    if (step_.bias_along_rows) {
      const T x = bias[tile.row + i];
#pragma omp simd
      for (int64_t j = 0; j < tile.num_columns; ++j) row[j] += x;
    } else {
      const T* const columns = bias + tile.column;
#pragma omp simd
      for (int64_t j = 0; j < tile.num_columns; ++j) row[j] += columns[j];
    }
  }
}

std::string gemm_library_version() {
  const dnnl_version_t* const version = dnnl_version();
  return fmt::format("{}.{}.{} {:.8}", version->major, version->minor, version->patch,
                     version->hash);
}

}  // namespace monograph::runtime
