#include "runtime/cpu/conv.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "ir/literal.h"
#include "ops/conv/convolution.h"

namespace monograph::runtime {
namespace {

using Direction = ir::ConvStep::Direction;

struct Tensors {
  ir::Literal x, weight, y;
};

ir::Literal numbers(ir::DType dtype, ir::Shape shape, int64_t salt) {
  return ir::Literal::from({dtype, std::move(shape)}, [=](int64_t i) {
    return static_cast<double>((i + salt) * (i + 3 * salt) % 31) / 16 - 1;
  });
}

Tensors tensors_of(const ir::ConvStep& step) {
  const ir::ImageSizes& s = step.sizes;
  return {numbers(step.dtype, {s.batch, s.height, s.width, s.channels}, 5),
          numbers(step.dtype, {s.kernel[0], s.kernel[1], s.channels, step.out_channels}, 7),
          numbers(step.dtype, {s.batch, s.out_height, s.out_width, step.out_channels}, 11)};
}

std::vector<double> doubles(const ir::Literal& literal) {
  std::vector<double> values;
  for (int64_t i = 0; i < literal.num_elements(); ++i) values.push_back(literal.get(i));
  return values;
}

std::vector<double> expected(const ir::ConvStep& step, const Tensors& t) {
  const ir::ImageSizes& s = step.sizes;
  const ops::ConvSizes sizes = {
      s.batch,
      s.height,
      s.width,
      s.channels,
      s.out_height,
      s.out_width,
      step.out_channels,
      {s.kernel[0], s.kernel[1], s.stride[0], s.stride[1], s.padding[0], s.padding[1]}};
  const auto x = doubles(t.x), weight = doubles(t.weight), y = doubles(t.y);
  std::vector<double> result;
  if (step.direction == Direction::kForward) {
    result.resize(y.size());
    ops::convolve(sizes, x.data(), weight.data(), result.data());
  } else if (step.direction == Direction::kBackwardData) {
    result.resize(x.size());
    ops::convolve_backward_data(sizes, y.data(), weight.data(), result.data());
  } else {
    result.resize(weight.size());
    ops::convolve_backward_weight(sizes, x.data(), y.data(), result.data());
  }
  return result;
}

ir::ConvStep step_of(ir::DType dtype, Direction direction, const ir::ImageSizes& sizes,
                     int64_t out_channels) {
  ir::ConvStep step;
  step.dtype = dtype;
  step.direction = direction;
  step.sizes = sizes;
  step.out_channels = out_channels;
  return step;
}

void compare(ir::DType dtype, const ir::ImageSizes& sizes, int64_t out_channels, double tolerance) {
  for (const Direction direction :
       {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeight}) {
    const ir::ConvStep step = step_of(dtype, direction, sizes, out_channels);
    Tensors t = tensors_of(step);
    const std::vector<double> wanted = expected(step, t);
    ir::Literal& written = direction == Direction::kForward        ? t.y
                           : direction == Direction::kBackwardData ? t.x
                                                                   : t.weight;
    const Conv conv(step, t.x.data(), t.weight.data(), t.y.data());
    for (int run = 0; run < 2; ++run) {  // nothing is left over from the first
      conv.run();
      double scale = 0;
      for (const double value : wanted) scale = std::max(scale, std::abs(value));
      for (int64_t i = 0; i < written.num_elements(); ++i) {
        ASSERT_NEAR(written.get(i), wanted[i], tolerance * scale)
            << static_cast<int>(direction) << " by " << conv.implementation() << ", element " << i;
      }
    }
  }
}

const ir::ImageSizes kStem = {2, 17, 16, 3, 9, 8, {7, 7}, {2, 2}, {3, 3}};
const ir::ImageSizes kPlain = {2, 6, 7, 16, 6, 7, {3, 3}, {1, 1}, {1, 1}};
const ir::ImageSizes kShortcut = {1, 8, 7, 32, 4, 4, {1, 1}, {2, 2}, {0, 0}};
const ir::ImageSizes kOdd = {1, 5, 9, 5, 4, 4, {2, 3}, {1, 2}, {0, 0}};

TEST(Conv, AgreesWithPlainLoops) {
  for (const ir::DType dtype : {ir::DType::kF32, ir::DType::kF64}) {
    compare(dtype, kStem, 16, 2e-6);
    compare(dtype, kPlain, 32, 2e-6);
    compare(dtype, kShortcut, 64, 2e-6);
    compare(dtype, kOdd, 7, 2e-6);
  }
}

TEST(Conv, OfBF16RoundsItsResult) {
  if (!__builtin_cpu_supports("avx512bw")) GTEST_SKIP() << "oneDNN needs AVX-512 for bf16";
  compare(ir::DType::kBF16, kPlain, 32, 8e-3);
  compare(ir::DType::kBF16, kShortcut, 64, 8e-3);
}

TEST(Conv, NamesWhatRuns) {
  const ir::ConvStep step = step_of(ir::DType::kF64, Direction::kForward, kOdd, 7);
  Tensors t = tensors_of(step);
  EXPECT_EQ(std::string(Conv(step, t.x.data(), t.weight.data(), t.y.data()).implementation()),
            "loops");
}

}  // namespace
}  // namespace monograph::runtime
