// Times what follows a float32 product on a whole result against the same on panels of rows that
// are still in cache (docs/epilogues.md). One core, processor time, in turns, medians in ms.
//   ninja -C build bench_cpu_epilogues && OMP_NUM_THREADS=1 build/src/bench_cpu_epilogues
#include <dnnl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <functional>
#include <vector>

// libmvec's vectors, as generated kernels declare them.
extern "C" __attribute__((simd("notinbranch"), const)) float tanhf(float) noexcept;

namespace {

constexpr int kRounds = 9;
constexpr float kScale = 0.7978845608f, kCubic = 0.044715f;

struct Matrices {
  int64_t m, n, k;
  std::vector<float> a, b, c, other, bias, sums;
  Matrices(int64_t rows, int64_t columns, int64_t depth)
      : m(rows),
        n(columns),
        k(depth),
        a(m * k),
        b(k * n),
        c(m * n),
        other(m * n),
        bias(n),
        sums(n) {
    for (auto* values : {&a, &b, &other, &bias}) {
      for (size_t i = 0; i < values->size(); ++i) {
        (*values)[i] = 0.1f * std::sin(0.37f * static_cast<float>(i));
      }
    }
  }
};

// Each works on one row of the product `c` and of `other`.
using RowWork = void (*)(int64_t n, float* c, float* other, const float* bias, float* sums);

void bias_gelu(int64_t n, float* c, float* other, const float* bias, float*) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float h = c[j] + bias[j];
    c[j] = h;
    other[j] = 0.5f * h * (1 + tanhf(kScale * (h + kCubic * h * h * h)));
  }
}

void gelu_backward(int64_t n, float* c, float* other, const float*, float* sums) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float h = other[j], t = tanhf(kScale * (h + kCubic * h * h * h));
    const float slope = 0.5f * (1 + t) + 0.5f * h * (1 - t * t) * kScale * (1 + 3 * kCubic * h * h);
    c[j] *= slope;
    sums[j] += c[j];
  }
}

void bias_residual(int64_t n, float* c, float* other, const float* bias, float*) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) c[j] += bias[j] + other[j];
}

void column_sum(int64_t n, float* c, float*, const float*, float* sums) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) sums[j] += c[j];
}

double cpu_ms(const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

void measure(const char* name, Matrices x, RowWork row_work) {
  const auto product = [&](int64_t first, int64_t rows) {
    dnnl_sgemm('N', 'N', rows, x.n, x.k, 1, x.a.data() + first * x.k, x.k, x.b.data(), x.n, 0,
               x.c.data() + first * x.n, x.n);
  };
  const auto follow = [&](int64_t first, int64_t rows) {
    for (int64_t row = first; row < first + rows; ++row) {
      row_work(x.n, x.c.data() + row * x.n, x.other.data() + row * x.n, x.bias.data(),
               x.sums.data());
    }
  };
  const std::vector<int64_t> panels = {x.m, 256, 128, 64};
  std::vector<std::vector<double>> ms(panels.size() + 2);
  for (int round = 0; round < kRounds; ++round) {
    ms[0].push_back(cpu_ms([&] { product(0, x.m); }));
    ms[1].push_back(cpu_ms([&] { follow(0, x.m); }));
    for (size_t p = 0; p < panels.size(); ++p) {
      ms[p + 2].push_back(cpu_ms([&] {
        for (int64_t row = 0; row < x.m; row += panels[p]) {
          product(row, panels[p]);
          follow(row, panels[p]);
        }
      }));
    }
  }
  fmt::print("| {} |", name);
  for (auto& each : ms) {
    std::sort(each.begin(), each.end());
    fmt::print(" {:.1f} |", each[kRounds / 2]);
  }
  fmt::print("\n");
}

}  // namespace

int main() {
  fmt::print("| follows | product | pass | both | panels of 256 | of 128 | of 64 |\n");
  measure("bias + GELU, input saved", {1024, 3072, 768}, bias_gelu);
  measure("GELU backward + column sum", {1024, 3072, 768}, gelu_backward);
  measure("bias + residual", {1024, 768, 3072}, bias_residual);
  measure("column sum", {1024, 768, 3072}, column_sum);
  return 0;
}
