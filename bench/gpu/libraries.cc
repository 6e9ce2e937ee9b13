// Times cuBLASLt and cuDNN at the sizes of GPT-2 124M, as the executor calls them.
// Usage: bench_gpu_libraries [BATCH]
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <random>

#include "runtime/cuda/executor.h"

namespace monograph::runtime {
namespace {

using ir::Address;
using ir::DType;
using ir::Segment;

constexpr int64_t kLength = 1024, kWidth = 768, kHeads = 12, kVocabulary = 50304;
constexpr int kRuns = 20;

// All operands lie at the beginning of the weights (random bf16), all results in scratch.
class Problem {
 public:
  explicit Problem(int64_t batch) : rows_(batch * kLength) {
    program.segment_bytes[static_cast<int>(Segment::kWeights)] = int64_t{8} << 30;
    program.segment_bytes[static_cast<int>(Segment::kScratch)] = int64_t{8} << 30;
  }
  void gemm(const std::string& name, int64_t m, int64_t n, int64_t k, bool ta, bool tb,
            DType result = DType::kBF16, bool has_bias = false) {
    ir::GemmStep step;
    step.dtype = DType::kBF16;
    step.result_dtype = result;
    step.transpose_a = ta, step.transpose_b = tb;
    step.m = m, step.n = n, step.k = k;
    step.lda = ta ? m : k, step.ldb = tb ? k : n, step.ldc = n;
    step.a = {Segment::kWeights, 0};
    step.b = {Segment::kWeights, int64_t{7} << 30};
    step.c = {Segment::kScratch, 0};
    step.has_bias = has_bias;
    step.bias_dtype = result;
    step.bias = {Segment::kWeights, int64_t{7} << 30};
    add(fmt::format("{} {}x{}x{}{}{}", name, m, n, k, ta ? " ta" : "", tb ? " tb" : ""), step,
        2.0 * m * n * k);
  }
  void layer(const std::string& name, int64_t in, int64_t out) {
    gemm(name + " forward+bias", rows_, out, in, false, false, DType::kBF16, true);
    gemm(name + " grad x", rows_, in, out, false, true);
    gemm(name + " grad w bf16", in, out, rows_, true, false);
    gemm(name + " grad w f32", in, out, rows_, true, false, DType::kF32);
  }
  void attention(int64_t batch) {
    ir::AttentionStep step;
    step.dtype = DType::kBF16;
    step.causal = true;
    step.scale = 1 / std::sqrt(64.0);
    step.batch = batch, step.heads = step.kv_heads = kHeads;
    step.queries = step.keys = kLength, step.width = 64;
    const auto packed = [&](Segment segment, int64_t offset, int part) {
      return ir::AttentionStep::Tensor{{segment, offset + part * kWidth * 2},
                                       {kLength * 3 * kWidth, 64, 3 * kWidth}};
    };
    const auto plain = [&](Segment segment, int64_t offset) {
      return ir::AttentionStep::Tensor{{segment, offset}, {kLength * kWidth, 64, kWidth}};
    };
    step.q = packed(Segment::kWeights, 0, 0);
    step.k = packed(Segment::kWeights, 0, 1);
    step.v = packed(Segment::kWeights, 0, 2);
    step.output = plain(Segment::kScratch, 0);
    step.logsumexp = {{Segment::kScratch, int64_t{1} << 30}, {kHeads * kLength, kLength, 1}};
    // q k, then p v; half of it masked.
    const double flops = 4.0 * batch * kHeads * kLength * kLength * 64 / 2;
    add(fmt::format("attention of {} forward", batch), step, flops);
    step.is_backward = true;
    step.grad_output = plain(Segment::kWeights, int64_t{1} << 30);
    step.grad_q = packed(Segment::kScratch, int64_t{2} << 30, 0);
    step.grad_k = packed(Segment::kScratch, int64_t{2} << 30, 1);
    step.grad_v = packed(Segment::kScratch, int64_t{2} << 30, 2);
    step.num_splits = step.wanted_splits();
    step.workspace = {Segment::kScratch, int64_t{3} << 30};
    add(fmt::format("attention of {} backward", batch), step, 2.5 * flops);
  }
  int64_t rows() const { return rows_; }

  ir::Program program;

 private:
  template <typename Work>
  void add(const std::string& name, const Work& work, double flops) {
    ir::Step& step = program.steps.emplace_back();
    step.work = work;
    step.name = name;
    step.flops = flops;
  }
  int64_t rows_;
};

void fill_random(CudaExecutor& executor, const device::cuda::ContextPtr& context) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> values(16 << 20);
  for (uint16_t& value : values) {
    const float x = normal(random);
    uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof(bits));
    value = static_cast<uint16_t>(bits >> 16);
  }
  const device::cuda::Stream stream(context);
  const auto num_bytes = static_cast<int64_t>(values.size() * 2);
  const auto base = reinterpret_cast<CUdeviceptr>(executor.segment(Segment::kWeights));
  stream.copy_to_device(base, values.data(), num_bytes);
  for (int64_t at = num_bytes; at < int64_t{8} << 30; at += num_bytes) {
    stream.copy(base + at, base, num_bytes);
  }
  stream.synchronize();
}

void print_times(const std::string& title, Problem& problem, const CudaExecutorOptions& options) {
  const auto context = device::cuda::Context::create();
  CudaExecutor executor(problem.program, {}, context, options);
  for (const std::string& remark : executor.remarks()) fmt::print("remark: {}\n", remark);
  fill_random(executor, context);
  executor.run();
  executor.measure_steps(true);
  for (int i = 0; i < kRuns; ++i) executor.run();
  fmt::print("{}\n", title);
  for (size_t s = 0; s < problem.program.steps.size(); ++s) {
    const ir::Step& step = problem.program.steps[s];
    const StepTime& time = executor.step_times()[s];
    const double seconds = static_cast<double>(time.total_ns) / 1e9 / time.num_runs;
    fmt::print("  {:<52} {:8.3f} ms {:7.1f} TFLOP/s\n", step.name, seconds * 1e3,
               step.flops / seconds / 1e12);
  }
}

void run(int64_t batch) {
  Problem problem(batch);
  problem.gemm("ceiling", 8192, 8192, 8192, false, false);
  problem.layer("qkv", kWidth, 3 * kWidth);
  problem.layer("proj", kWidth, kWidth);
  problem.layer("fc", kWidth, 4 * kWidth);
  problem.layer("out", 4 * kWidth, kWidth);
  for (const int64_t rows : {8192, 16384}) {  // a chunk of the loss head
    problem.gemm("logits", rows, kVocabulary, kWidth, false, true);
    problem.gemm("logits grad x", rows, kWidth, kVocabulary, false, false);
    problem.gemm("logits grad w f32", kVocabulary, kWidth, rows, true, false, DType::kF32);
  }
  // In parts of the batch, what its backward adds up would fit the second-level cache.
  for (int64_t part = batch; part >= 2; part /= 2) problem.attention(part);
  print_times("first of the heuristics", problem, {});
  print_times("search of 16", problem, {.num_candidates = 16});
}

}  // namespace
}  // namespace monograph::runtime

int main(int argc, char** argv) {
  monograph::runtime::run(argc > 1 ? std::stoll(argv[1]) : 64);
}
