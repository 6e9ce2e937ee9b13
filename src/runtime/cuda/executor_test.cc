#include "runtime/cuda/executor.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "device/cuda/availability.h"
#include "device/cuda/fake_driver.h"
#include "device/cuda/nvrtc.h"
#include "ir/program/attention_workspace.h"
#include "runtime/cuda/program_testing.h"

// Programs on the GPU beside the same Programs on the CPU's executor.
namespace monograph::runtime {
namespace {

using ir::Address;
using ir::DType;
using ir::Literal;
using ir::Segment;

ir::GemmStep gemm_step(Problem& problem, const std::string& name, DType dtype, DType result,
                       int64_t m, int64_t n, int64_t k, bool ta, bool tb,
                       std::vector<int64_t> batch = {}) {
  ir::GemmStep step;
  step.dtype = dtype;
  step.result_dtype = result;
  step.transpose_a = ta, step.transpose_b = tb;
  step.m = m, step.n = n, step.k = k;
  step.lda = (ta ? m : k) + 8, step.ldb = (tb ? k : n) + 8, step.ldc = n;
  int64_t items = 1;
  step.batch = batch;
  for (size_t d = batch.size(); d-- > 0;) {
    step.batch_strides_a.insert(step.batch_strides_a.begin(), items * (ta ? k : m) * step.lda);
    step.batch_strides_b.insert(step.batch_strides_b.begin(), items * (tb ? n : k) * step.ldb);
    step.batch_strides_c.insert(step.batch_strides_c.begin(), items * m * n);
    items *= batch[d];
  }
  step.a = problem.state(name + ".a", dtype, {items * (ta ? k : m), step.lda});
  step.b = problem.state(name + ".b", dtype, {items * (tb ? n : k), step.ldb});
  step.c = problem.output(name + ".c", result, {items * m, n});
  return step;
}

TEST(CudaExecutor, MultipliesAsTheCpuDoes) {
  Problem problem;
  int number = 0;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      problem.step(gemm_step(problem, fmt::format("p{}", number++), DType::kF32, DType::kF32, 96,
                             72, 40, ta, tb));
      problem.step(gemm_step(problem, fmt::format("p{}", number++), DType::kF32, DType::kF32, 33,
                             17, 5, ta, tb, {3, 2}));
    }
  }
  compare(problem, 1e-6);
}

TEST(CudaExecutor, MultipliesBf16) {
  Problem problem;
  int number = 0;
  for (const DType result : {DType::kBF16, DType::kF32}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        problem.step(gemm_step(problem, fmt::format("p{}", number++), DType::kBF16, result, 256,
                               128, 64, ta, tb));
      }
    }
  }
  compare(problem, 3e-3);
}

TEST(CudaExecutor, AddsToWhatTheResultHolds) {
  Problem problem;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    ir::GemmStep step = gemm_step(problem, std::string(ir::dtype_name(dtype)), dtype, DType::kF32,
                                  64, 48, 32, true, false);
    problem.step(step);
    step.accumulates = true;
    problem.step(step);
  }
  compare(problem, 3e-3);
}

TEST(CudaExecutor, AddsABiasAlongEitherSide) {
  Problem problem;
  int number = 0;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool along_rows : {false, true}) {
      const std::string name = fmt::format("p{}", number++);
      ir::GemmStep step = gemm_step(problem, name, dtype, dtype, 64, 48, 32, false, false);
      step.has_bias = true;
      step.bias_along_rows = along_rows;
      step.bias_dtype = DType::kF32;  // which a bf16 epilogue does not read
      step.bias = problem.state(name + ".bias", DType::kF32, {along_rows ? 64 : 48});
      problem.step(step);
    }
  }
  compare(problem, 3e-3);
}

TEST(CudaExecutor, SearchKeepsTheProduct) {
  Problem problem;
  problem.step(gemm_step(problem, "x", DType::kBF16, DType::kF32, 512, 256, 128, false, true));
  problem.step(gemm_step(problem, "y", DType::kBF16, DType::kF32, 512, 256, 128, false, true));
  compare(problem, 3e-3, {.num_candidates = 8});
}

// q, k and v packed in one row, as one product gives them.
void add_attention(Problem& problem, DType dtype, int64_t heads, int64_t kv_heads, int64_t length,
                   int64_t width, bool causal, bool deterministic = true) {
  const int64_t batch = 2, row = (heads + 2 * kv_heads) * width, bytes = ir::dtype_bytes(dtype);
  ir::AttentionStep step;
  step.dtype = dtype;
  step.causal = causal;
  step.scale = 1 / std::sqrt(static_cast<double>(width));
  step.batch = batch, step.heads = heads, step.kv_heads = kv_heads;
  step.queries = step.keys = length, step.width = width;
  const auto packed = [&](Address base) {
    const auto part = [&](int64_t first) {
      return ir::AttentionStep::Tensor{{base.segment, base.offset + first * width * bytes},
                                       {length * row, width, row}};
    };
    return std::array{part(0), part(heads), part(heads + kv_heads)};
  };
  const auto rows = [&](Address base) {
    return ir::AttentionStep::Tensor{base, {length * heads * width, width, heads * width}};
  };
  const auto qkv = packed(problem.state("qkv", dtype, {batch * length, row}));
  step.q = qkv[0], step.k = qkv[1], step.v = qkv[2];
  step.output = rows(problem.output("output", dtype, {batch * length, heads * width}));
  step.logsumexp = {problem.output("logsumexp", DType::kF32, {batch * heads, length}),
                    {heads * length, length, 1}};
  problem.step(step);
  step.is_backward = true;
  step.is_deterministic = deterministic;
  step.grad_output = rows(problem.state("grad", dtype, {batch * length, heads * width}));
  const auto grads = packed(problem.output("grad_qkv", dtype, {batch * length, row}));
  step.grad_q = grads[0], step.grad_k = grads[1], step.grad_v = grads[2];
  step.num_splits = step.wanted_splits();
  step.workspace = problem.scratch(std::max(step.workspace_bytes(), ir::gpu_workspace_bytes(step)));
  problem.step(step);
}

TEST(CudaExecutor, AttendsByOwnKernels) {
  for (const bool causal : {false, true}) {
    Problem problem;
    add_attention(problem, DType::kF32, 4, 2, 96, 40, causal);
    compare(problem, 1e-5);
    if (IsSkipped()) return;
  }
}

TEST(CudaExecutor, AttendsByCudnn) {
  for (const bool causal : {false, true}) {
    for (const int64_t kv_heads : {4, 2}) {
      Problem problem;
      add_attention(problem, DType::kBF16, 4, kv_heads, 256, 64, causal);
      compare(problem, 1e-2);
      if (IsSkipped()) return;
      const CudaExecutor gpu(problem.program, {}, device::cuda::Context::create());
      EXPECT_THAT(gpu.remarks(), testing::IsEmpty());
    }
  }
}

TEST(CudaExecutor, AttendsInAnyOrder) {
  for (const int64_t kv_heads : {4, 2}) {
    Problem problem;
    add_attention(problem, DType::kBF16, 4, kv_heads, 256, 64, true, /*deterministic=*/false);
    compare(problem, 1e-2);
    if (IsSkipped()) return;
    const CudaExecutor gpu(problem.program, {}, device::cuda::Context::create());
    EXPECT_THAT(gpu.remarks(), testing::IsEmpty());
  }
}

TEST(CudaExecutor, SortsIdsStably) {
  NEEDS_GPU();
  for (const int64_t num_ids : {5, 300, 70000}) {
    constexpr int64_t kCount = 10000;
    Problem problem;
    const Address ids{Segment::kInput, 0};
    problem.program.segment_bytes[static_cast<int>(Segment::kInput)] = kCount * 8;
    problem.program.inputs = {{"ids", {DType::kI64, {kCount}}, ids}};
    const Address order = problem.output("order", DType::kI32, {kCount});
    const Address offsets = problem.output("offsets", DType::kI32, {num_ids + 1});
    problem.step(ir::SortIdsStep{DType::kI64, kCount, num_ids, ids, order, offsets});
    std::mt19937 random(3);
    std::vector<int64_t> values(kCount);
    for (int64_t& value : values) value = random() % num_ids;
    CudaExecutor gpu(problem.program, {}, device::cuda::Context::create());
    Executor cpu(problem.program, {});
    for (int run = 0; run < 3; ++run) {
      std::shuffle(values.begin(), values.end(), random);
      gpu.set_input("ids", Literal::from_i64({kCount}, values));
      cpu.set_input("ids", Literal::from_i64({kCount}, values));
      gpu.run();
      cpu.run();
      EXPECT_EQ(gpu.output("order"), cpu.output("order"));
      EXPECT_EQ(gpu.output("offsets"), cpu.output("offsets"));
    }
    values[77] = num_ids;
    gpu.set_input("ids", Literal::from_i64({kCount}, values));
    gpu.run();
    try {
      gpu.synchronize();
      ADD_FAILURE() << "no error";
    } catch (const UserError& error) {
      EXPECT_EQ(std::string(error.what()),
                fmt::format("the id at position 77 is out of range: use 0..{}", num_ids - 1));
    }
  }
}

// y = x + w; w += 1
constexpr char kAddAndCount[] = R"cuda(
extern "C" __global__ void add_and_count(const float* x, float* w, float* y) {
  const int i = threadIdx.x;
  y[i] = x[i] + w[i];
  w[i] += 1;
})cuda";

TEST(CudaExecutor, RunsKernelsOnStatesAndInputs) {
  NEEDS_GPU();
  const auto context = device::cuda::Context::create();
  ir::Program program;
  const ir::TensorType type{DType::kF32, {4}};
  const Address x{Segment::kInput, 256}, w{Segment::kWeights, 0}, y{Segment::kOutput, 0};
  program.segment_bytes[static_cast<int>(Segment::kInput)] = 512;
  program.segment_bytes[static_cast<int>(Segment::kWeights)] = 16;
  program.segment_bytes[static_cast<int>(Segment::kOutput)] = 16;
  program.inputs = {{"x", type, x}};
  program.states = {{"w", type, w}};
  program.outputs = {{"y", type, y}};
  program.kernels.emplace_back();
  program.kernels[0].buffers.resize(3);
  program.steps.emplace_back();
  program.steps[0].work = ir::KernelStep{0, {x, w, y}, {}};
  ir::KernelImage image;
  image.cubin = std::make_shared<const std::string>(
      device::cuda::compile_cubin(kAddAndCount, context->properties().architecture()));
  image.launches = {{"add_and_count", {1, 1, 1}, {4, 1, 1}, 0}};
  CudaExecutor gpu(program, {image}, context);
  EXPECT_EQ(gpu.why_not_replayed(),
            "the first step runs unrecorded, so that libraries load their code");
  std::vector<int64_t> numbers;
  for (int step = 0; step < 6; ++step) {  // inputs of later steps do not disturb earlier ones
    const auto value = static_cast<float>(10 * step);
    gpu.set_input("x", Literal::from_f32({4}, {value, value + 1, value + 2, value + 3}));
    numbers.push_back(gpu.run());
  }
  EXPECT_EQ(gpu.why_not_replayed(), "");
  for (int step = 3; step < 6; ++step) {
    const auto value = static_cast<float>(11 * step);
    EXPECT_EQ(gpu.output("y", numbers[step]),
              Literal::from_f32({4}, {value, value + 1, value + 2, value + 3}));
  }
  EXPECT_EQ(gpu.read_state("w"), Literal::from_f32({4}, {6, 6, 6, 6}));
  gpu.run();  // the input stays as it was set
  EXPECT_EQ(gpu.output("y"), Literal::from_f32({4}, {56, 57, 58, 59}));
  gpu.measure_steps(true);
  gpu.run();
  EXPECT_EQ(gpu.step_times()[0].num_runs, 1);
  EXPECT_GT(gpu.step_times()[0].total_ns, 0);
  EXPECT_EQ(gpu.why_not_replayed(), "each step is measured alone");
}

// y = x + w; w += 1, on a fake GPU.
ir::Program counting_program() {
  ir::Program program;
  const ir::TensorType type{DType::kF32, {1}};
  const Address x{Segment::kInput, 0}, w{Segment::kWeights, 0}, y{Segment::kOutput, 0};
  for (const Segment segment : {Segment::kInput, Segment::kWeights, Segment::kOutput}) {
    program.segment_bytes[static_cast<int>(segment)] = 4;
  }
  program.inputs = {{"x", type, x}};
  program.states = {{"w", type, w}};
  program.outputs = {{"y", type, y}};
  program.kernels.emplace_back();
  program.kernels[0].buffers.resize(3);
  program.steps.emplace_back();
  program.steps[0].work = ir::KernelStep{0, {x, w, y}, {}};
  return program;
}

ir::KernelImage counting_image() {
  device::cuda::fake_gpu().kernels["count"] = [](void** arguments) {
    const auto at = [&](int i) { return static_cast<float*>(arguments[i]); };
    *at(2) = *at(0) + *at(1);
    *at(1) += 1;
  };
  return {std::make_shared<const std::string>("code"), {{"count", {1, 1, 1}, {1, 1, 1}, 0}}};
}

class FakeGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    device::cuda::fake_gpu().free_bytes = device::cuda::fake_gpu().total_bytes = 100'000;
  }
  const device::cuda::Driver api_ = device::cuda::fake_driver();
};

TEST_F(FakeGpuTest, ReplaysFromTheSecondStepOn) {
  const ir::Program program = counting_program();
  CudaExecutor gpu(program, {counting_image()}, device::cuda::Context::create(0, api_));
  EXPECT_THAT(gpu.why_not_replayed(), testing::HasSubstr("the first step runs unrecorded"));
  for (int step = 0; step < 5; ++step) {
    gpu.set_input("x", Literal::from_f32({1}, {10.0f * static_cast<float>(step)}));
    EXPECT_EQ(gpu.run(), step);
    EXPECT_EQ(gpu.output("y").get(0), 11 * step);
  }
  EXPECT_EQ(gpu.output("y", 2).get(0), 22);
  EXPECT_EQ(gpu.read_state("w").get(0), 5);
  EXPECT_TRUE(gpu.is_replayed());
  EXPECT_EQ(device::cuda::fake_gpu().num_graph_launches, 4);
}

TEST_F(FakeGpuTest, NamesTheConditionThatKeepsItFromReplay) {
  const ir::Program program = counting_program();
  const auto context = device::cuda::Context::create(0, api_);
  CudaExecutor asked_not_to(program, {counting_image()}, context, {.replays = false});
  asked_not_to.run();
  asked_not_to.run();
  EXPECT_EQ(asked_not_to.why_not_replayed(), "the mode asks for single launches");
  device::cuda::fake_gpu().end_of_recording = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  CudaExecutor refused(program, {counting_image()}, context);
  for (int step = 0; step < 3; ++step) refused.run();
  EXPECT_THAT(refused.why_not_replayed(),
              testing::StartsWith("the step cannot be recorded: cuStreamEndCapture gave"));
  EXPECT_EQ(refused.read_state("w").get(0), 3);  // it runs all the same
  refused.measure_steps(true);
  EXPECT_EQ(refused.why_not_replayed(), "each step is measured alone");
  refused.run();
  EXPECT_EQ(refused.step_times()[0].total_ns, 1'000'000);
}

TEST_F(FakeGpuTest, RefusesAPlanThatDoesNotFit) {
  device::cuda::fake_gpu().free_bytes = 1000;
  const ir::Program program = counting_program();
  try {
    CudaExecutor(program, {counting_image()}, device::cuda::Context::create(0, api_));
    ADD_FAILURE() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("does not fit the GPU"));
  }
  EXPECT_EQ(device::cuda::fake_gpu().free_bytes, 1000);
}

TEST(CudaExecutor, SaysWhatDoesNotFit) {
  ir::Program program;
  program.segment_bytes[static_cast<int>(Segment::kWeights)] = 2'000'000;
  program.segment_bytes[static_cast<int>(Segment::kScratch)] = 9'000'000;
  program.peak_bytes = 11'000'000;
  const std::string text = out_of_memory_text(program, 9'000'000, 4'000'000, 10'000'000);
  EXPECT_THAT(text, testing::HasSubstr("peaks at 11.0 MB (weights 2.0, scratch 9.0), 9.0 MB of that"
                                       " are still to be had, and 4.0 of 10.0 MB are free"));
  EXPECT_THAT(text, testing::HasSubstr("a --batch of at most 44 % of this one would fit"));
  EXPECT_THAT(out_of_memory_text(program, 11'000'000, 1'000'000, 10'000'000),
              testing::HasSubstr("no --batch would fit: use a smaller model"));
}

}  // namespace
}  // namespace monograph::runtime
