#include "runtime/cuda/builtin_kernels.h"

#include "base/error.h"

namespace monograph::runtime {
namespace {

// Images are [batch, height, width, channel]; a thread makes one element unless said otherwise.
constexpr char kImages[] = R"cuda(
struct Window {
  i64 batch, height, width, channels, out_height, out_width, out_channels;
  int kernel[2], stride[2], padding[2];
};

#define FOR_EACH(e, count)                                                                 \
  for (i64 e = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; e < (count);       \
       e += static_cast<i64>(gridDim.x) * blockDim.x)

// --- weights: to[j][i] = from[i][j], a tile of 32 x 32 a block ------------------------------

extern "C" __global__ void turn(const T* from, T* to, i64 rows, i64 columns) {
  __shared__ T tile[32][33];
  const i64 row = blockIdx.y * 32ll, column = blockIdx.x * 32ll;
  for (int i = threadIdx.y; i < 32; i += 8) {
    if (row + i < rows && column + threadIdx.x < columns) {
      tile[i][threadIdx.x] = from[(row + i) * columns + column + threadIdx.x];
    }
  }
  __syncthreads();
  for (int i = threadIdx.y; i < 32; i += 8) {
    if (column + i < columns && row + threadIdx.x < rows) {
      to[(column + i) * rows + row + threadIdx.x] = tile[threadIdx.x][i];
    }
  }
}

// --- convolution, where cuDNN has no plan: simple rather than fast --------------------------

extern "C" __global__ void conv(Window s, const T* x, const T* weight, T* y) {
  FOR_EACH(e, s.batch * s.out_height * s.out_width * s.out_channels) {
    const i64 o = e % s.out_channels, q = e / s.out_channels % s.out_width;
    const i64 p = e / s.out_channels / s.out_width % s.out_height;
    const i64 n = e / s.out_channels / s.out_width / s.out_height;
    Sum sum = 0;
    for (int i = 0; i < s.kernel[0]; ++i) {
      const i64 h = p * s.stride[0] + i - s.padding[0];
      if (h < 0 || h >= s.height) continue;
      for (int j = 0; j < s.kernel[1]; ++j) {
        const i64 w = q * s.stride[1] + j - s.padding[1];
        if (w < 0 || w >= s.width) continue;
        const T* pixel = x + ((n * s.height + h) * s.width + w) * s.channels;
        const T* taps = weight + (i * s.kernel[1] + j) * s.channels * s.out_channels + o;
        for (i64 c = 0; c < s.channels; ++c) sum += read(pixel[c]) * read(taps[c * s.out_channels]);
      }
    }
    write(y[e], sum);
  }
}

extern "C" __global__ void conv_backward_data(Window s, T* x, const T* weight, const T* y) {
  FOR_EACH(e, s.batch * s.height * s.width * s.channels) {
    const i64 c = e % s.channels, w = e / s.channels % s.width;
    const i64 h = e / s.channels / s.width % s.height, n = e / s.channels / s.width / s.height;
    Sum sum = 0;
    for (int i = 0; i < s.kernel[0]; ++i) {
      const i64 down = h + s.padding[0] - i;
      if (down < 0 || down % s.stride[0] != 0 || down / s.stride[0] >= s.out_height) continue;
      for (int j = 0; j < s.kernel[1]; ++j) {
        const i64 right = w + s.padding[1] - j;
        if (right < 0 || right % s.stride[1] != 0 || right / s.stride[1] >= s.out_width) continue;
        const i64 at = (n * s.out_height + down / s.stride[0]) * s.out_width + right / s.stride[1];
        const T* grad = y + at * s.out_channels;
        const T* taps = weight + ((i * s.kernel[1] + j) * s.channels + c) * s.out_channels;
        for (i64 o = 0; o < s.out_channels; ++o) sum += read(grad[o]) * read(taps[o]);
      }
    }
    write(x[e], sum);
  }
}

extern "C" __global__ void conv_backward_weight(Window s, const T* x, T* weight, const T* y) {
  FOR_EACH(e, s.kernel[0] * s.kernel[1] * s.channels * s.out_channels) {
    const i64 o = e % s.out_channels, c = e / s.out_channels % s.channels;
    const int j = static_cast<int>(e / s.out_channels / s.channels % s.kernel[1]);
    const int i = static_cast<int>(e / s.out_channels / s.channels / s.kernel[1]);
    Sum sum = 0;
    for (i64 n = 0; n < s.batch; ++n) {
      for (i64 p = 0; p < s.out_height; ++p) {
        const i64 h = p * s.stride[0] + i - s.padding[0];
        if (h < 0 || h >= s.height) continue;
        for (i64 q = 0; q < s.out_width; ++q) {
          const i64 w = q * s.stride[1] + j - s.padding[1];
          if (w < 0 || w >= s.width) continue;
          sum += read(x[((n * s.height + h) * s.width + w) * s.channels + c]) *
                 read(y[((n * s.out_height + p) * s.out_width + q) * s.out_channels + o]);
        }
      }
    }
    write(weight[e], sum);
  }
}

// --- max pool: the first of equal elements, and a NaN before all ----------------------------
// A thread does kWide channels of a pixel, which it reads together.

template <int kWide>
struct alignas(kWide * sizeof(T)) Pack {
  T at[kWide];
};

// In one image, of kWide channels from `image` on: each one's largest element in a window, and its
// place, row * 65536 + column from the window's corner.
template <int kWide>
struct Largest {
  Sum value[kWide];
  int place[kWide];
};

template <int kWide>
__device__ inline Largest<kWide> largest(const Window& s, const T* image, int top, int left) {
  const int height = s.height, width = s.width, channels = s.channels;
  Largest<kWide> best;
  bool is_first = true;
  for (int i = top < 0 ? -top : 0; i < s.kernel[0] && top + i < height; ++i) {
    const T* row = image + (top + i) * static_cast<i64>(width * channels);
    for (int j = left < 0 ? -left : 0; j < s.kernel[1] && left + j < width; ++j) {
      const auto pack = *reinterpret_cast<const Pack<kWide>*>(row + (left + j) * channels);
#pragma unroll
      for (int k = 0; k < kWide; ++k) {
        const Sum other = read(pack.at[k]), value = best.value[k];
        if (is_first || other > value || (other != other && value == value)) {
          best.value[k] = other;
          best.place[k] = i * 65536 + j;
        }
      }
      is_first = false;
    }
  }
  return best;
}

// One image in a row of blocks; its packs are counted with 32 bits, which divide fast.
template <int kWide>
__device__ inline void max_pool(const Window& s, const T* x, T* y) {
  const unsigned packs = s.channels / kWide, out_width = s.out_width;
  const unsigned count = s.out_height * out_width * packs;
  const unsigned e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= count) return;
  const unsigned c = e % packs * kWide;
  const int q = e / packs % out_width, p = e / packs / out_width;
  for (i64 n = blockIdx.y; n < s.batch; n += gridDim.y) {
    const T* image = x + n * s.height * s.width * s.channels + c;
    const auto best = largest<kWide>(s, image, p * s.stride[0] - s.padding[0],
                                     q * s.stride[1] - s.padding[1]);
    Pack<kWide> result;
#pragma unroll
    for (int k = 0; k < kWide; ++k) write(result.at[k], best.value[k]);
    reinterpret_cast<Pack<kWide>*>(y)[n * count + e] = result;
  }
}

// A thread makes two by two pixels: the windows that reach them are few, and each is looked
// through once. Sums are in the order of windows.
template <int kWide>
__device__ inline void max_pool_backward(const Window& s, const T* x, const T* grad_y, T* grad_x) {
  const unsigned packs = s.channels / kWide, tiles_right = (s.width + 1) / 2;
  const unsigned count = (s.height + 1) / 2 * tiles_right * packs;
  const unsigned e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= count) return;
  const int c = e % packs * kWide, right = e / packs % tiles_right * 2;
  const int down = e / packs / tiles_right * 2;
  // Windows p with p stride - padding + kernel > the first row and p stride - padding <= the last.
  const int above = down + s.padding[0] - s.kernel[0];
  const int before = right + s.padding[1] - s.kernel[1];
  const int first_p = above < 0 ? 0 : above / s.stride[0] + 1;
  const int first_q = before < 0 ? 0 : before / s.stride[1] + 1;
  const int last_p = (down + 1 + s.padding[0]) / s.stride[0];
  const int last_q = (right + 1 + s.padding[1]) / s.stride[1];
  for (i64 n = blockIdx.y; n < s.batch; n += gridDim.y) {
    const T* image = x + n * s.height * s.width * s.channels + c;
    const T* grads = grad_y + n * s.out_height * s.out_width * s.channels + c;
    Sum sums[4][kWide] = {};
    for (int p = first_p; p <= last_p && p < s.out_height; ++p) {
      for (int q = first_q; q <= last_q && q < s.out_width; ++q) {
        const int top = p * s.stride[0] - s.padding[0], left = q * s.stride[1] - s.padding[1];
        const auto best = largest<kWide>(s, image, top, left);
        const auto grad =
            *reinterpret_cast<const Pack<kWide>*>(grads + (p * s.out_width + q) * s.channels);
#pragma unroll
        for (int k = 0; k < kWide; ++k) {
          const int i = top + best.place[k] / 65536 - down, j = left + best.place[k] % 65536 - right;
#pragma unroll
          for (int t = 0; t < 4; ++t) {
            sums[t][k] += i == t / 2 && j == t % 2 ? read(grad.at[k]) : Sum(0);
          }
        }
      }
    }
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const i64 h = down + t / 2, w = right + t % 2;
      if (h >= s.height || w >= s.width) continue;
      Pack<kWide> result;
#pragma unroll
      for (int k = 0; k < kWide; ++k) write(result.at[k], sums[t][k]);
      *reinterpret_cast<Pack<kWide>*>(
          grad_x + (n * s.height * s.width + h * s.width + w) * s.channels + c) = result;
    }
  }
}

constexpr int kWhole = 16 / sizeof(T);  // 16 bytes at a time
extern "C" __global__ void max_pool_1(Window s, const T* x, T* y) { max_pool<1>(s, x, y); }
extern "C" __global__ void max_pool_wide(Window s, const T* x, T* y) { max_pool<kWhole>(s, x, y); }
extern "C" __global__ void max_pool_backward_1(Window s, const T* x, const T* grad_y, T* grad_x) {
  max_pool_backward<1>(s, x, grad_y, grad_x);
}
extern "C" __global__ void max_pool_backward_wide(Window s, const T* x, const T* grad_y,
                                                  T* grad_x) {
  max_pool_backward<kWhole>(s, x, grad_y, grad_x);
}
)cuda";

}  // namespace

std::string image_kernels_source(ir::DType dtype) {
  const char* const types = dtype == ir::DType::kF32    ? "typedef float T, Sum;\n"
                            : dtype == ir::DType::kBF16 ? "typedef bf16 T;\ntypedef float Sum;\n"
                                                        : "typedef double T, Sum;\n";
  check(dtype == ir::DType::kF32 || dtype == ir::DType::kBF16 || dtype == ir::DType::kF64,
        "images of {} on a GPU", ir::dtype_name(dtype));
  return kernel_types_source() + types + kImages;
}

}  // namespace monograph::runtime
