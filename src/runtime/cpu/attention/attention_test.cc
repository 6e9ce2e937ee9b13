#include "runtime/cpu/attention/attention.h"

#include <gmock/gmock.h>
#include <omp.h>

#include <cmath>
#include <random>

#include "base/error.h"

namespace monograph::runtime {
namespace {

using ir::AttentionStep;
using ir::DType;

struct Case {
  int64_t batch, heads, kv_heads, queries, keys, width;
  bool causal;
  int64_t num_splits = 1;
  double magnitude = 1;  // of q
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << fmt::format("{}x{} heads on {}, {} queries, {} keys of {}{}, {} splits", c.batch,
                            c.heads, c.kv_heads, c.queries, c.keys, c.width,
                            c.causal ? ", causal" : "", c.num_splits);
}

float bf16_value(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

// Tensors in one float (or bf16) memory, rows of several side by side with a gap, as packed q, k
// and v lie.
class Problem {
 public:
  Problem(const Case& c, DType dtype) : case_(c) {
    step.dtype = dtype;
    step.causal = c.causal;
    step.scale = 1.2 / std::sqrt(static_cast<double>(c.width));
    step.batch = c.batch, step.heads = c.heads, step.kv_heads = c.kv_heads;
    step.queries = c.queries, step.keys = c.keys, step.width = c.width;
    step.num_splits = c.num_splits;
    place({{&step.q, c.heads},
           {&step.output, c.heads},
           {&step.grad_output, c.heads},
           {&step.grad_q, c.heads}},
          c.queries);
    place({{&step.k, c.kv_heads},
           {&step.v, c.kv_heads},
           {&step.grad_k, c.kv_heads},
           {&step.grad_v, c.kv_heads}},
          c.keys);
    step.logsumexp = {{ir::Segment::kBuffers, 0}, {c.heads * c.queries * 2, c.queries * 2, 2}};
    step.workspace = {ir::Segment::kScratch, 0};
    logsumexp.assign(c.batch * c.heads * c.queries * 2, 99);
    AttentionStep sized = step;
    sized.is_backward = true;
    workspace.assign(sized.workspace_bytes() / 4, NAN);
    floats.assign(num_elements_, 99);
    halves.assign(num_elements_, 0x42c6);  // 99
    std::mt19937 random(5);
    std::normal_distribution<double> normal;
    for (const auto& [tensor, heads, rows] : {std::tuple{&step.q, c.heads, c.queries},
                                              {&step.k, c.kv_heads, c.keys},
                                              {&step.v, c.kv_heads, c.keys},
                                              {&step.grad_output, c.heads, c.queries}}) {
      for_each(*tensor, heads, rows, [&](int64_t at) {
        const auto value =
            static_cast<float>(normal(random) * (tensor == &step.q ? c.magnitude : 1));
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof(bits));
        halves[at] = static_cast<uint16_t>(bits >> 16);
        floats[at] = dtype == DType::kBF16 ? bf16_value(halves[at]) : value;
      });
    }
  }

  void run(const attention::Kernel& kernel) {
    const auto memory = [&](const ir::Address& address) {
      if (address.segment == ir::Segment::kScratch)
        return reinterpret_cast<std::byte*>(workspace.data());
      if (address.segment == ir::Segment::kBuffers)
        return reinterpret_cast<std::byte*>(logsumexp.data());
      return step.dtype == DType::kBF16
                 ? reinterpret_cast<std::byte*>(halves.data() + address.offset)
                 : reinterpret_cast<std::byte*>(floats.data() + address.offset);
    };
    step.is_backward = false;
    Attention(step, memory, kernel).run();
    step.is_backward = true;
    Attention(step, memory, kernel).run();
  }

  int64_t at(const AttentionStep::Tensor& tensor, int64_t b, int64_t h, int64_t i,
             int64_t d) const {
    return tensor.address.offset + b * tensor.strides[0] + h * tensor.strides[1] +
           i * tensor.strides[2] + d;
  }
  double value(const AttentionStep::Tensor& tensor, int64_t b, int64_t h, int64_t i,
               int64_t d) const {
    const int64_t position = at(tensor, b, h, i, d);
    return step.dtype == DType::kBF16 ? bf16_value(halves[position]) : floats[position];
  }

  // All that lies between the tensors is as it was.
  int64_t num_untouched() const {
    int64_t count = 0;
    for (int64_t i = 0; i < num_elements_; ++i) {
      count += step.dtype == DType::kBF16 ? halves[i] == 0x42c6 : floats[i] == 99;
    }
    return count;
  }

  AttentionStep step;
  std::vector<float> floats, logsumexp, workspace;
  std::vector<uint16_t> halves;

 private:
  static constexpr int64_t kGap = 5;

  void place(const std::vector<std::pair<AttentionStep::Tensor*, int64_t>>& tensors, int64_t rows) {
    int64_t line = kGap;
    for (const auto& [tensor, heads] : tensors) {
      tensor->address = {ir::Segment::kInput, num_elements_ + line - kGap};
      line += heads * case_.width;
    }
    for (const auto& [tensor, heads] : tensors) {
      tensor->strides = {rows * line, case_.width, line};
    }
    num_elements_ += case_.batch * rows * line;
  }

  template <typename Visit>
  void for_each(const AttentionStep::Tensor& tensor, int64_t heads, int64_t rows,
                const Visit& visit) const {
    for (int64_t b = 0; b < case_.batch; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t d = 0; d < case_.width; ++d) visit(at(tensor, b, h, i, d));
        }
      }
    }
  }

  Case case_;
  int64_t num_elements_ = 0;
};

// One head in double, by the formulas.
struct Expected {
  std::vector<double> output, logsumexp, grad_q, grad_k, grad_v;

  Expected(const Case& c) : grad_k(c.keys * c.width), grad_v(c.keys * c.width) {}

  void add_head(const Problem& problem, const Case& c, int64_t b, int64_t h) {
    const AttentionStep& step = problem.step;
    const int64_t g = h / (c.heads / c.kv_heads), D = c.width;
    output.assign(c.queries * D, 0), grad_q.assign(c.queries * D, 0);
    logsumexp.assign(c.queries, 0);
    for (int64_t i = 0; i < c.queries; ++i) {
      const int64_t count = c.causal ? i + c.keys - c.queries + 1 : c.keys;
      std::vector<double> p(count), dp(count);
      double sum = 0, top = -INFINITY, delta = 0;
      for (int64_t j = 0; j < count; ++j) {
        for (int64_t d = 0; d < D; ++d) {
          p[j] +=
              step.scale * problem.value(step.q, b, h, i, d) * problem.value(step.k, b, g, j, d);
          dp[j] += problem.value(step.grad_output, b, h, i, d) * problem.value(step.v, b, g, j, d);
        }
        top = std::max(top, p[j]);
      }
      for (double& value : p) sum += value = std::exp(value - top);
      logsumexp[i] = top + std::log(sum);
      for (int64_t j = 0; j < count; ++j) delta += (p[j] /= sum) * dp[j];
      for (int64_t j = 0; j < count; ++j) {
        const double ds = step.scale * p[j] * (dp[j] - delta);
        for (int64_t d = 0; d < D; ++d) {
          output[i * D + d] += p[j] * problem.value(step.v, b, g, j, d);
          grad_q[i * D + d] += ds * problem.value(step.k, b, g, j, d);
          grad_k[j * D + d] += ds * problem.value(step.q, b, h, i, d);
          grad_v[j * D + d] += p[j] * problem.value(step.grad_output, b, h, i, d);
        }
      }
    }
  }
};

void compare(const Problem& problem, const AttentionStep::Tensor& tensor, int64_t b, int64_t h,
             const std::vector<double>& expected, int64_t width, double tolerance,
             const char* name) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / width, d = static_cast<int64_t>(i) % width;
    ASSERT_NEAR(problem.value(tensor, b, h, row, d), expected[i],
                tolerance * (1 + std::abs(expected[i])))
        << name << " batch " << b << " head " << h << " row " << row << " at " << d;
  }
}

void check_case(const Case& c, DType dtype, const attention::Kernel& kernel) {
  SCOPED_TRACE(fmt::format("{} {}", kernel.name, testing::PrintToString(c)));
  Problem problem(c, dtype);
  const int64_t num_written =
      c.batch * c.width * (2 * c.heads * c.queries + 2 * c.kv_heads * c.keys);
  const int64_t before = problem.num_untouched();
  problem.run(kernel);
  EXPECT_NEAR(problem.num_untouched(), before - num_written, 3);  // a result may be 99
  const double tolerance = (dtype == DType::kBF16 ? 2e-2 : 1e-5) * std::max(1.0, c.magnitude);
  const int64_t group = c.heads / c.kv_heads;
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t g = 0; g < c.kv_heads; ++g) {
      Expected expected(c);
      for (int64_t h = g * group; h < (g + 1) * group; ++h) {
        expected.add_head(problem, c, b, h);
        compare(problem, problem.step.output, b, h, expected.output, c.width, tolerance, "output");
        compare(problem, problem.step.grad_q, b, h, expected.grad_q, c.width, tolerance, "grad_q");
        for (int64_t i = 0; i < c.queries; ++i) {
          ASSERT_NEAR(problem.logsumexp[((b * c.heads + h) * c.queries + i) * 2],
                      expected.logsumexp[i], 1e-5 * std::max(1.0, c.magnitude));
        }
      }
      compare(problem, problem.step.grad_k, b, g, expected.grad_k, c.width, tolerance, "grad_k");
      compare(problem, problem.step.grad_v, b, g, expected.grad_v, c.width, tolerance, "grad_v");
    }
  }
}

std::vector<const attention::Kernel*> kernels() {
  std::vector<const attention::Kernel*> kernels = {&attention::portable_kernel()};
  if (const auto* kernel = attention::avx2_kernel()) kernels.push_back(kernel);
  if (const auto* kernel = attention::avx512_kernel()) kernels.push_back(kernel);
  return kernels;
}

const Case kCases[] = {{1, 1, 1, 1, 1, 1, true},          {2, 2, 2, 70, 70, 16, true},
                       {1, 2, 1, 67, 67, 24, true},       {1, 4, 2, 33, 91, 32, true},
                       {1, 2, 2, 5, 130, 64, true},       {2, 3, 1, 40, 77, 20, false},
                       {1, 1, 1, 100, 3, 128, false},     {1, 1, 1, 17, 19, 256, true},
                       {1, 2, 1, 150, 150, 8, true, 3},   {1, 2, 2, 20, 200, 16, false, 2},
                       {1, 1, 1, 64, 64, 32, true, 1, 30}};

TEST(Attention, IsWhatTheFormulasGive) {
  for (const attention::Kernel* kernel : kernels()) {
    for (const Case& c : kCases) check_case(c, DType::kF32, *kernel);
  }
}

TEST(Attention, TakesBf16) {
  for (const attention::Kernel* kernel : kernels()) {
    for (const Case& c : kCases) {
      if (c.magnitude == 1) check_case(c, DType::kBF16, *kernel);
    }
  }
}

TEST(Attention, GivesTheSameBitsForAnyNumberOfThreads) {
  const int num_threads = omp_get_max_threads();
  for (const attention::Kernel* kernel : kernels()) {
    for (const Case& c : kCases) {
      Problem one(c, DType::kF32), many(c, DType::kF32);
      omp_set_num_threads(1);
      one.run(*kernel);
      omp_set_num_threads(7);
      many.run(*kernel);
      EXPECT_EQ(one.floats, many.floats) << kernel->name << " " << c;
      EXPECT_EQ(one.logsumexp, many.logsumexp) << kernel->name << " " << c;
    }
  }
  omp_set_num_threads(num_threads);
}

// A weight that underflows is no number's neighbour; a NaN stays visible.
TEST(Attention, PassesNaNOn) {
  const Case c{1, 1, 1, 40, 40, 16, true};
  for (const attention::Kernel* kernel : kernels()) {
    Problem problem(c, DType::kF32);
    problem.floats[problem.at(problem.step.k, 0, 0, 20, 3)] = NAN;
    problem.run(*kernel);
    EXPECT_FALSE(std::isnan(problem.value(problem.step.output, 0, 0, 19, 0))) << kernel->name;
    EXPECT_TRUE(std::isnan(problem.value(problem.step.output, 0, 0, 20, 0))) << kernel->name;
    EXPECT_TRUE(std::isnan(problem.value(problem.step.output, 0, 0, 39, 0))) << kernel->name;
  }
}

TEST(Attention, RefusesWideHeads) {
  AttentionStep step;
  step.width = 512;
  try {
    Attention(step, [](const ir::Address&) -> std::byte* { return nullptr; });
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "attention with heads of width 512 on the CPU: use up to 256, or more heads");
  }
}

}  // namespace
}  // namespace monograph::runtime
