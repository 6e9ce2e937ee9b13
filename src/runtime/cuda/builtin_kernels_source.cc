#include "runtime/cuda/builtin_kernels.h"

namespace monograph::runtime {
namespace {

// No headers are included: they cost NVRTC more time than the kernels.
constexpr char kTypes[] = R"cuda(
typedef unsigned short bf16;
typedef long long i64;
constexpr unsigned kAll = 0xffffffffu;

__device__ inline float read(float x) { return x; }
__device__ inline double read(double x) { return x; }
__device__ inline float read(bf16 x) { return __uint_as_float(static_cast<unsigned>(x) << 16); }
__device__ inline void write(float& to, float x) { to = x; }
__device__ inline void write(double& to, double x) { to = x; }
__device__ inline void write(bf16& to, float x) {  // to the nearest even; NaN stays NaN
  const unsigned bits = __float_as_uint(x);
  to = x != x ? 0x7fff : static_cast<bf16>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
)cuda";

constexpr char kSteps[] = R"cuda(
// --- bias -----------------------------------------------------------------------------------

template <typename From, typename To>
__device__ void fill_bias(const From* bias, To* c, i64 rows, i64 columns, i64 leading,
                          int along_rows) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 e = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; e < rows * columns;
       e += step) {
    const i64 i = e / columns, j = e % columns;
    write(c[i * leading + j], read(bias[along_rows ? i : j]));
  }
}
#define FILL_BIAS(from_name, from, to_name, to)                                              \
  extern "C" __global__ void fill_bias_##from_name##_##to_name(                              \
      const from* bias, to* c, i64 rows, i64 columns, i64 leading, int along_rows) {         \
    fill_bias(bias, c, rows, columns, leading, along_rows);                                  \
  }
FILL_BIAS(f32, float, f32, float)
FILL_BIAS(bf16, bf16, bf16, bf16)
FILL_BIAS(f64, double, f64, double)
FILL_BIAS(bf16, bf16, f32, float)
FILL_BIAS(f32, float, bf16, bf16)

// --- sort -----------------------------------------------------------------------------------
// Stable radix sort, 256 digits a pass. A block ranks a tile of kTile ids, 256 at a time in order.

constexpr int kThreads = 256, kWarps = 8, kTile = 2048;

template <typename Id>
__device__ void sort_read(const Id* ids, int count, i64 num_ids, unsigned* keys, int* order,
                          i64* error) {
  const int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= count) return;
  const i64 id = ids[p];
  const bool is_valid = id >= 0 && id < num_ids;
  if (!is_valid) {  // the least position, and its id for the message
    atomicMin(reinterpret_cast<unsigned long long*>(error), static_cast<unsigned long long>(p));
  }
  keys[p] = is_valid ? static_cast<unsigned>(id) : 0u;
  order[p] = p;
}
extern "C" __global__ void sort_read_i64(const i64* ids, int count, i64 num_ids, unsigned* keys,
                                         int* order, i64* error) {
  sort_read(ids, count, num_ids, keys, order, error);
}
extern "C" __global__ void sort_read_i32(const int* ids, int count, i64 num_ids, unsigned* keys,
                                         int* order, i64* error) {
  sort_read(ids, count, num_ids, keys, order, error);
}

// counts[digit * gridDim.x + block]
extern "C" __global__ void sort_count(const unsigned* keys, int count, int shift, int* counts) {
  __shared__ int histogram[256];
  histogram[threadIdx.x] = 0;
  __syncthreads();
  const int begin = blockIdx.x * kTile, end = min(count, begin + kTile);
  for (int p = begin + threadIdx.x; p < end; p += kThreads) {
    atomicAdd(&histogram[(keys[p] >> shift) & 255], 1);
  }
  __syncthreads();
  counts[threadIdx.x * gridDim.x + blockIdx.x] = histogram[threadIdx.x];
}

// Exclusive prefix sums in place, by one block of 1024 threads.
extern "C" __global__ void sort_scan(int* counts, int num_counts) {
  __shared__ int sums[32];
  __shared__ int carried;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  if (threadIdx.x == 0) carried = 0;
  __syncthreads();
  for (int begin = 0; begin < num_counts; begin += 1024) {
    const int i = begin + threadIdx.x;
    const int own = i < num_counts ? counts[i] : 0;
    int sum = own;
    for (int d = 1; d < 32; d *= 2) {
      const int other = __shfl_up_sync(kAll, sum, d);
      if (lane >= d) sum += other;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    if (warp == 0) {
      int total = sums[lane];
      for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(kAll, total, d);
        if (lane >= d) total += other;
      }
      sums[lane] = total;
    }
    __syncthreads();
    const int before = carried + (warp > 0 ? sums[warp - 1] : 0);
    if (i < num_counts) counts[i] = before + sum - own;
    __syncthreads();
    if (threadIdx.x == 1023) carried = before + sum;
    __syncthreads();
  }
}

extern "C" __global__ void sort_scatter(const unsigned* keys, const int* order, int count,
                                        int shift, const int* places, unsigned* keys_out,
                                        int* order_out) {
  __shared__ int next[256];          // where the next id of a digit goes
  __shared__ int starts[kWarps][256];  // of this round, a warp: counts, then places
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  next[threadIdx.x] = places[threadIdx.x * gridDim.x + blockIdx.x];
  const int begin = blockIdx.x * kTile, end = min(count, begin + kTile);
  for (int round = begin; round < end; round += kThreads) {
    for (int w = 0; w < kWarps; ++w) starts[w][threadIdx.x] = 0;
    __syncthreads();
    const int p = round + threadIdx.x;
    const bool is_valid = p < end;
    const unsigned key = is_valid ? keys[p] : 0u;
    const int digit = is_valid ? static_cast<int>((key >> shift) & 255) : 256;
    const unsigned peers = __match_any_sync(kAll, digit);
    const int rank = __popc(peers & ((1u << lane) - 1));
    if (is_valid && rank == 0) starts[warp][digit] = __popc(peers);
    __syncthreads();
    int place = next[threadIdx.x];
    for (int w = 0; w < kWarps; ++w) {
      const int here = starts[w][threadIdx.x];
      starts[w][threadIdx.x] = place;
      place += here;
    }
    next[threadIdx.x] = place;
    __syncthreads();
    if (is_valid) {
      const int to = starts[warp][digit] + rank;
      keys_out[to] = key;
      order_out[to] = order[p];
    }
    __syncthreads();
  }
}

// offsets[v]: the first place of an id that is at least v.
extern "C" __global__ void sort_offsets(const unsigned* keys, int count, int num_ids,
                                        int* offsets) {
  const int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v > num_ids) return;
  int low = 0, high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (keys[middle] < static_cast<unsigned>(v)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  offsets[v] = low;
}
)cuda";

}  // namespace

std::string kernel_types_source() {
  return kTypes;
}

std::string step_kernels_source() {
  return std::string(kTypes) + kSteps;
}

}  // namespace monograph::runtime
