#include "runtime/cpu/gemm.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <bit>
#include <cmath>
#include <random>

namespace monograph::runtime {
namespace {

struct Case {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  std::vector<int64_t> batch;
  bool has_bias, bias_along_rows;
  bool accumulates = false;
};

struct BF16 {
  BF16() = default;
  explicit BF16(double value) {
    const auto word = std::bit_cast<uint32_t>(static_cast<float>(value));
    bits = static_cast<uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  operator double() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  uint16_t bits = 0;
};

// Runs the step and compares with a plain sum in double. Leading dimensions are padded by 3, so
// that a mixed-up stride shows.
template <typename T, typename Result = T>
void check_gemm(const Case& c, ir::DType dtype, double tolerance) {
  ir::GemmStep step;
  step.dtype = step.bias_dtype = dtype;
  step.result_dtype = sizeof(Result) == sizeof(T) ? dtype : ir::DType::kF32;
  step.accumulates = c.accumulates;
  step.transpose_a = c.transpose_a;
  step.transpose_b = c.transpose_b;
  step.m = c.m, step.n = c.n, step.k = c.k;
  step.lda = (c.transpose_a ? c.m : c.k) + 3;
  step.ldb = (c.transpose_b ? c.k : c.n) + 3;
  step.ldc = c.n + 3;
  const int64_t a_size = step.lda * (c.transpose_a ? c.k : c.m);
  const int64_t b_size = step.ldb * (c.transpose_b ? c.n : c.k), c_size = step.ldc * c.m;
  int64_t num_items = 1;
  step.batch = c.batch;
  for (size_t axis = c.batch.size(); axis-- > 0;) {
    step.batch_strides_a.insert(step.batch_strides_a.begin(), a_size * num_items);
    step.batch_strides_b.insert(step.batch_strides_b.begin(), b_size * num_items);
    step.batch_strides_c.insert(step.batch_strides_c.begin(), c_size * num_items);
    num_items *= c.batch[axis];
  }
  step.has_bias = c.has_bias;
  step.bias_along_rows = c.bias_along_rows;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<T> a(a_size * num_items), b(b_size * num_items), bias(std::max(c.m, c.n));
  for (auto* values : {&a, &b, &bias}) {
    for (T& value : *values) value = static_cast<T>(uniform(random));
  }
  std::vector<Result> result(c_size * num_items, Result(99));
  Gemm(step, a.data(), b.data(), result.data(), c.has_bias ? bias.data() : nullptr).run();
  for (int64_t item = 0; item < num_items; ++item) {
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < step.ldc; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < c.k && j < c.n; ++k) {
          const int64_t at = c.transpose_a ? k * step.lda + i : i * step.lda + k;
          const int64_t bt = c.transpose_b ? j * step.ldb + k : k * step.ldb + j;
          sum += static_cast<double>(a[item * a_size + at]) * b[item * b_size + bt];
        }
        if (c.accumulates) sum += 99;
        if (c.has_bias) sum += bias[c.bias_along_rows ? i : j % c.n];
        const double expected = j < c.n ? sum : 99;  // the padding is not written
        ASSERT_NEAR(result[item * c_size + i * step.ldc + j], expected, tolerance)
            << c.m << "x" << c.n << "x" << c.k << " item " << item << " at " << i << "," << j;
      }
    }
  }
}

TEST(Gemm, TransposedBatchedAndBiased) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const int bias : {0, 1, 2}) {
        for (const std::vector<int64_t>& batch :
             {std::vector<int64_t>{}, std::vector<int64_t>{3}, std::vector<int64_t>{2, 2}}) {
          const Case c{13, 21, 17, transpose_a, transpose_b, batch, bias > 0, bias == 2};
          check_gemm<float>(c, ir::DType::kF32, 1e-5);
          check_gemm<double>(c, ir::DType::kF64, 1e-13);
        }
      }
    }
  }
}

// A bf16 product in float32 panels, deeper than one of them too; a bf16 bias only with a bf16
// result.
TEST(Gemm, BF16IsWidened) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const int bias : {0, 1, 2}) {
        const Case c{13, 21, 17, transpose_a, transpose_b, {2}, bias > 0, bias == 2};
        check_gemm<BF16>(c, ir::DType::kBF16, 4e-2);
        const Case large{600, 70, 40, transpose_a, transpose_b, {}, bias > 0, bias == 2};
        check_gemm<BF16>(large, ir::DType::kBF16, 6e-2);
      }
      const Case deep{130, 150, 3100, transpose_a, transpose_b, {}, false, false};
      check_gemm<BF16, float>(deep, ir::DType::kBF16, 1e-3);
    }
  }
}

TEST(Gemm, AddsToWhatIsThere) {
  for (const bool transpose : {false, true}) {
    const Case c{150, 140, 60, transpose, !transpose, {2}, false, false, true};
    check_gemm<float>(c, ir::DType::kF32, 1e-4);
    check_gemm<double>(c, ir::DType::kF64, 1e-12);
    check_gemm<BF16>(c, ir::DType::kBF16, 0.5);
    check_gemm<BF16, float>(c, ir::DType::kBF16, 1e-4);
  }
}

TEST(Gemm, LargeProductsComeInTiles) {
  for (const int bias : {0, 1, 2}) {
    for (const bool transpose : {false, true}) {
      check_gemm<float>({600, 33, 60, transpose, !transpose, {}, bias > 0, bias == 2},
                        ir::DType::kF32, 1e-5);
      check_gemm<float>({67, 530, 60, transpose, transpose, {}, bias > 0, bias == 2},
                        ir::DType::kF32, 1e-5);
      check_gemm<double>({300, 300, 20, transpose, transpose, {2}, bias > 0, bias == 2},
                         ir::DType::kF64, 1e-13);
    }
  }
}

int num_tiles(int64_t m, int64_t n, int64_t k, std::vector<int64_t> batch = {}) {
  ir::GemmStep step;
  step.m = m, step.n = n, step.k = k;
  step.lda = k, step.ldb = n, step.ldc = n;
  step.batch_strides_a = step.batch_strides_b = step.batch_strides_c = batch;
  step.batch = std::move(batch);
  return Gemm(step, nullptr, nullptr, nullptr, nullptr).num_tiles();
}

TEST(Gemm, TilesKeepCoresBusyAndStayLarge) {
  EXPECT_EQ(num_tiles(8, 8, 8), 1);
  EXPECT_EQ(num_tiles(2048, 512, 128), 16);         // 256 x 256
  EXPECT_EQ(num_tiles(128, 512, 2048), 4);          // 128 x 128
  EXPECT_EQ(num_tiles(128, 128, 2048), 2);          // 64 x 128
  EXPECT_EQ(num_tiles(128, 32, 128, {16, 4}), 64);  // one an item
  EXPECT_EQ(num_tiles(1, 50304, 768), 16);
}

TEST(Gemm, BitsDoNotDependOnTheNumberOfThreads) {
  ir::GemmStep step;
  step.m = 128, step.n = 300, step.k = 2000;
  step.lda = 128, step.ldb = 300, step.ldc = 300;
  step.transpose_a = true;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> a(128 * 2000), b(300 * 2000);
  for (auto* values : {&a, &b}) {
    for (float& value : *values) value = uniform(random);
  }
  const int before = omp_get_max_threads();
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 4}) {
    omp_set_num_threads(threads);
    results.emplace_back(128 * 300);
    Gemm(step, a.data(), b.data(), results.back().data(), nullptr).run();
  }
  omp_set_num_threads(before);
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

TEST(Gemm, OneByOne) {
  check_gemm<float>({1, 1, 1, false, true, {}, true, false}, ir::DType::kF32, 1e-6);
}

}  // namespace
}  // namespace monograph::runtime
