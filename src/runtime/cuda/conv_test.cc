#include "runtime/cuda/conv.h"

#include "runtime/cuda/program_testing.h"

namespace monograph::runtime {
namespace {

using ir::Address;
using ir::DType;

// All three directions of one convolution over images of 12 x 9 pixels.
void add_convs(Problem& problem, DType dtype, std::array<int64_t, 2> kernel, int64_t stride,
               int64_t padding, int64_t in, int64_t out) {
  ir::ConvStep step;
  step.dtype = dtype;
  step.sizes = {.batch = 3, .height = 12, .width = 9, .channels = in};
  step.sizes.kernel = kernel;
  step.sizes.stride = {stride, stride};
  step.sizes.padding = {padding, padding};
  step.sizes.out_height = (12 + 2 * padding - kernel[0]) / stride + 1;
  step.sizes.out_width = (9 + 2 * padding - kernel[1]) / stride + 1;
  step.out_channels = out;
  const ir::Shape x = {3, 12, 9, in}, weight = {kernel[0], kernel[1], in, out};
  const ir::Shape y = {3, step.sizes.out_height, step.sizes.out_width, out};
  const std::string name = fmt::format("{}", problem.program.steps.size());
  const Address x_at = problem.state("x" + name, dtype, x);
  const Address weight_at = problem.state("w" + name, dtype, weight);
  const Address y_at = problem.state("y" + name, dtype, y);
  step.x = x_at, step.weight = weight_at;
  step.y = problem.output("y of " + name, dtype, y);
  problem.step(step);
  step.direction = ir::ConvStep::Direction::kBackwardData;
  step.y = y_at;
  step.x = problem.output("x of " + name, dtype, x);
  problem.step(step);
  step.direction = ir::ConvStep::Direction::kBackwardWeight;
  step.x = x_at;
  step.weight = problem.output("w of " + name, dtype, weight);
  problem.step(step);
}

void compare_convs(DType dtype, double tolerance) {
  Problem problem;
  add_convs(problem, dtype, {3, 3}, 1, 1, 8, 16);
  add_convs(problem, dtype, {3, 3}, 2, 1, 16, 8);
  add_convs(problem, dtype, {1, 1}, 1, 0, 24, 8);  // a product
  add_convs(problem, dtype, {1, 1}, 2, 0, 8, 40);
  add_convs(problem, dtype, {7, 7}, 2, 3, 3, 8);
  add_convs(problem, dtype, {3, 2}, 1, 0, 5, 7);
  compare(problem, tolerance);
}

TEST(CudaExecutor, Convolves) {
  compare_convs(DType::kF32, 2e-6);
}

TEST(CudaExecutor, ConvolvesBf16) {
  Problem problem;  // oneDNN takes bf16 in whole blocks of channels
  add_convs(problem, DType::kBF16, {3, 3}, 1, 1, 32, 64);
  add_convs(problem, DType::kBF16, {3, 3}, 2, 1, 64, 32);
  add_convs(problem, DType::kBF16, {1, 1}, 1, 0, 64, 32);
  add_convs(problem, DType::kBF16, {1, 1}, 2, 0, 32, 64);
  compare(problem, 5e-3);
  compare(problem, 5e-3, {.num_candidates = 4});
}

TEST(CudaExecutor, ConvolvesF64) {
  compare_convs(DType::kF64, 1e-12);
}

TEST(CudaExecutor, TakesTheLargestOfWindows) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    Problem problem;
    for (const auto& [kernel, stride, padding] :
         std::vector<std::array<int64_t, 3>>{{3, 2, 1}, {2, 2, 0}, {3, 1, 1}, {5, 3, 2}}) {
      ir::MaxPoolStep step;
      step.dtype = dtype;
      const int64_t channels = stride == 2 ? 16 : 5;  // several a thread, or one
      step.sizes = {.batch = 2, .height = 11, .width = 8, .channels = channels};
      step.sizes.kernel = {kernel, kernel};
      step.sizes.stride = {stride, stride};
      step.sizes.padding = {padding, padding};
      step.sizes.out_height = (11 + 2 * padding - kernel) / stride + 1;
      step.sizes.out_width = (8 + 2 * padding - kernel) / stride + 1;
      const ir::Shape y = {2, step.sizes.out_height, step.sizes.out_width, channels};
      const std::string name = fmt::format("{}", problem.program.steps.size());
      step.x = problem.state("x" + name, dtype, {2, 11, 8, channels});
      step.y = problem.output("y" + name, dtype, y);
      problem.step(step);
      step.is_backward = true;
      step.y = problem.state("grad" + name, dtype, y);
      step.grad_x = problem.output("grad of " + name, dtype, {2, 11, 8, channels});
      problem.step(step);
    }
    compare(problem, dtype == DType::kBF16 ? 5e-3 : 1e-6);
  }
}

}  // namespace
}  // namespace monograph::runtime
