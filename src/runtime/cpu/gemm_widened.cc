// Products of bf16 operands in float32: each thread widens the panels of its tile and calls
// dnnl_sgemm. The sums are those of bf16 instructions, which add exact products in float32 as well.
#include <dnnl.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/instruction_sets.h"

namespace monograph::runtime {
namespace {

constexpr int64_t kMaxDepth = 768;  // of the panels that are widened at a time: they stay in L2

MONOGRAPH_PER_INSTRUCTION_SET void widen(const uint16_t* from, int64_t count, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = static_cast<uint32_t>(from[i]) << 16;
    to[i] = std::bit_cast<float>(bits);
  }
}

// To the nearest, ties to even; NaN stays NaN.
MONOGRAPH_PER_INSTRUCTION_SET void narrow(const float* from, int64_t count, uint16_t* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(from[i]);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    to[i] = static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40u : rounded);
  }
}

void widen_lines(const uint16_t* from, int64_t num_lines, int64_t length, int64_t leading,
                 float* to) {
  for (int64_t line = 0; line < num_lines; ++line) {
    widen(from + line * leading, length, to + line * length);
  }
}

// A part of an operand, widened, and what it is, so that the next tile may use it again.
struct Panel {
  std::vector<float> values;
  const uint16_t* source = nullptr;
  int64_t serial = -1, num_lines = 0, length = 0;

  const float* fill(const uint16_t* from, int64_t lines, int64_t columns, int64_t leading,
                    int64_t run_serial) {
    if (source == from && serial == run_serial && num_lines == lines && length == columns) {
      return values.data();
    }
    if (static_cast<int64_t>(values.size()) < lines * columns) values.resize(lines * columns);
    widen_lines(from, lines, columns, leading, values.data());
    source = from, serial = run_serial, num_lines = lines, length = columns;
    return values.data();
  }
};

struct Workspace {
  Panel a, b;
  std::vector<float> c, bias;
};

}  // namespace

void Gemm::run_widened(const Tile& tile, int64_t serial) const {
  static thread_local Workspace work;
  const bool is_narrow = step_.result_dtype == ir::DType::kBF16;
  auto* const narrow_c = static_cast<uint16_t*>(c_) + tile.c;
  float* c = static_cast<float*>(c_) + tile.c;
  int64_t ldc = step_.ldc;
  if (is_narrow) {
    ldc = tile.num_columns;
    work.c.resize(std::max<size_t>(work.c.size(), tile.num_rows * ldc));
    c = work.c.data();
    if (step_.accumulates) widen_lines(narrow_c, tile.num_rows, tile.num_columns, step_.ldc, c);
  }
  for (int64_t k = 0; k < step_.k || k == 0; k += kMaxDepth) {
    const int64_t depth = std::min(kMaxDepth, step_.k - k);
    const auto* a =
        static_cast<const uint16_t*>(a_) + tile.a + k * (step_.transpose_a ? step_.lda : 1);
    const auto* b =
        static_cast<const uint16_t*>(b_) + tile.b + k * (step_.transpose_b ? 1 : step_.ldb);
    const int64_t a_lines = step_.transpose_a ? depth : tile.num_rows;
    const int64_t a_length = step_.transpose_a ? tile.num_rows : depth;
    const int64_t b_lines = step_.transpose_b ? tile.num_columns : depth;
    const int64_t b_length = step_.transpose_b ? depth : tile.num_columns;
    const float* const wide_a = work.a.fill(a, a_lines, a_length, step_.lda, serial);
    const float* const wide_b = work.b.fill(b, b_lines, b_length, step_.ldb, serial);
    const dnnl_status_t status =
        dnnl_sgemm(step_.transpose_a ? 'T' : 'N', step_.transpose_b ? 'T' : 'N', tile.num_rows,
                   tile.num_columns, depth, 1.0f, wide_a, a_length, wide_b, b_length,
                   k > 0 || step_.accumulates ? 1.0f : 0.0f, c, ldc);
    check(status == dnnl_success, "dnnl_sgemm {}x{}x{}: status {}", tile.num_rows, tile.num_columns,
          depth, static_cast<int>(status));
  }
  if (step_.has_bias) add_wide_bias(c, ldc, tile);
  for (int64_t row = 0; is_narrow && row < tile.num_rows; ++row) {
    narrow(c + row * ldc, tile.num_columns, narrow_c + row * step_.ldc);
  }
}

void Gemm::add_wide_bias(float* c, int64_t ldc, const Tile& tile) const {
  const int64_t first = step_.bias_along_rows ? tile.row : tile.column;
  const int64_t count = step_.bias_along_rows ? tile.num_rows : tile.num_columns;
  static thread_local std::vector<float> bias;
  bias.resize(std::max<size_t>(bias.size(), count));
  if (step_.bias_dtype == ir::DType::kBF16) {
    widen(static_cast<const uint16_t*>(bias_) + first, count, bias.data());
  } else {
    std::memcpy(bias.data(), static_cast<const float*>(bias_) + first, count * sizeof(float));
  }
  for (int64_t i = 0; i < tile.num_rows; ++i) {
    float* const row = c + i * ldc;
    const float* const columns = bias.data();
    const float x = columns[step_.bias_along_rows ? i : 0];
    if (step_.bias_along_rows) {
#pragma omp simd
      for (int64_t j = 0; j < tile.num_columns; ++j) row[j] += x;
    } else {
#pragma omp simd
      for (int64_t j = 0; j < tile.num_columns; ++j) row[j] += columns[j];
    }
  }
}

}  // namespace monograph::runtime
