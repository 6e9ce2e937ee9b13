#include "runtime/cpu/max_pool.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/error.h"
#include "ops/conv/pooling.h"

namespace monograph::runtime {
namespace {

struct BF16 {
  uint16_t bits;
};

float widen(BF16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
float widen(float value) {
  return value;
}
double widen(double value) {
  return value;
}

// To the nearest even, as stores of kernels round.
void store(BF16& target, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  target.bits = static_cast<uint16_t>((value != value ? bits | 0x400000 : rounded) >> 16);
}
void store(float& target, float value) {
  target = value;
}
void store(double& target, double value) {
  target = value;
}

// Compares as numbers, whatever the storage.
template <typename T>
struct Elements {
  const T* data;
  auto operator[](int64_t at) const { return widen(data[at]); }
};

ops::PoolSizes sizes_of(const ir::ImageSizes& s) {
  return {s.batch,
          s.height,
          s.width,
          s.channels,
          s.out_height,
          s.out_width,
          {s.kernel[0], s.kernel[1], s.stride[0], s.stride[1], s.padding[0], s.padding[1]}};
}

template <typename T>
void forward(const ops::PoolSizes& sizes, const T* x, T* y) {
#pragma omp parallel for schedule(static)
  for (int64_t image = 0; image < sizes.batch; ++image) {
    ops::for_each_maximum(sizes, image, Elements<T>{x},
                          [&](int64_t to, int64_t from) { y[to] = x[from]; });
  }
}

template <typename T>
void backward(const ops::PoolSizes& sizes, const T* grad_y, const T* x, T* grad_x) {
  using Sum = decltype(widen(T()));
  const int64_t num_elements = sizes.height * sizes.width * sizes.channels;
#pragma omp parallel
  {
    std::vector<Sum> sums(num_elements);
#pragma omp for schedule(static)
    for (int64_t image = 0; image < sizes.batch; ++image) {
      const int64_t first = image * num_elements;
      std::fill(sums.begin(), sums.end(), Sum(0));
      ops::for_each_maximum(sizes, image, Elements<T>{x}, [&](int64_t from, int64_t to) {
        sums[to - first] += widen(grad_y[from]);
      });
      for (int64_t i = 0; i < num_elements; ++i) store(grad_x[first + i], sums[i]);
    }
  }
}

template <typename T>
void run(const ir::MaxPoolStep& step, std::byte* x, std::byte* y, std::byte* grad_x) {
  const ops::PoolSizes sizes = sizes_of(step.sizes);
  if (step.is_backward) {
    backward(sizes, reinterpret_cast<const T*>(y), reinterpret_cast<const T*>(x),
             reinterpret_cast<T*>(grad_x));
  } else {
    forward(sizes, reinterpret_cast<const T*>(x), reinterpret_cast<T*>(y));
  }
}

}  // namespace

void run_max_pool(const ir::MaxPoolStep& step, std::byte* x, std::byte* y, std::byte* grad_x) {
  switch (step.dtype) {
    case ir::DType::kF32:
      return run<float>(step, x, y, grad_x);
    case ir::DType::kF64:
      return run<double>(step, x, y, grad_x);
    case ir::DType::kBF16:
      return run<BF16>(step, x, y, grad_x);
    default:
      throw_internal_error("max_pool of {}", ir::dtype_name(step.dtype));
  }
}

}  // namespace monograph::runtime
