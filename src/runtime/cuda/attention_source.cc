#include <fmt/format.h>

#include "runtime/cuda/builtin_kernels.h"

namespace monograph::runtime {
namespace {

constexpr char kAttention[] = R"cuda(
// --- attention ------------------------------------------------------------------------------
// One warp a row; element lane + 32 * e of it in lane. Simple rather than fast.

struct Tensor { void* data; i64 batch, head, position; };
struct Attention {
  Tensor q, k, v, output, logsumexp, grad_output, grad_q, grad_k, grad_v;
  int num_batches, heads, kv_heads, queries, keys, width, causal;
  double scale;
};

template <typename T> struct Sum { typedef float type; };
template <> struct Sum<double> { typedef double type; };

template <typename T>
__device__ T* row_of(const Tensor& t, i64 b, i64 h, i64 p) {
  return static_cast<T*>(t.data) + b * t.batch + h * t.head + p * t.position;
}

template <typename T, typename S>
__device__ void load(S (&to)[kMaxElements], const T* row, int width, int lane) {
  for (int e = 0; e < kMaxElements; ++e) {
    const int i = lane + 32 * e;
    to[e] = i < width ? static_cast<S>(read(row[i])) : S(0);
  }
}

template <typename T, typename S>
__device__ void store(T* row, const S (&from)[kMaxElements], int width, int lane) {
  for (int e = 0; e < kMaxElements; ++e) {
    const int i = lane + 32 * e;
    if (i < width) write(row[i], from[e]);
  }
}

template <typename S>
__device__ S dot(const S (&x)[kMaxElements], const S (&y)[kMaxElements]) {
  S sum = 0;
  for (int e = 0; e < kMaxElements; ++e) sum += x[e] * y[e];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(kAll, sum, d);
  return sum;
}

__device__ inline float exponential(float x) { return expf(x); }
__device__ inline double exponential(double x) { return exp(x); }
__device__ inline float logarithm(float x) { return logf(x); }
__device__ inline double logarithm(double x) { return log(x); }

__device__ inline i64 warp_number() {
  return (blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x) / 32;
}
// Keys that query i sees.
__device__ inline int num_seen(const Attention& a, int i) {
  return a.causal ? max(0, min(a.keys, i + a.keys - a.queries + 1)) : a.keys;
}

template <typename T>
__device__ void attention_forward(const Attention& a) {
  typedef typename Sum<T>::type S;
  const i64 row = warp_number();
  const int lane = threadIdx.x & 31;
  if (row >= static_cast<i64>(a.num_batches) * a.heads * a.queries) return;
  const int i = row % a.queries, h = row / a.queries % a.heads;
  const i64 b = row / a.queries / a.heads;
  const int kv = h / (a.heads / a.kv_heads), limit = num_seen(a, i);
  S q[kMaxElements], sum[kMaxElements] = {}, other[kMaxElements];
  load<T, S>(q, row_of<T>(a.q, b, h, i), a.width, lane);
  S most = -__int_as_float(0x7f800000), total = 0;  // minus infinity
  for (int j = 0; j < limit; ++j) {
    load<T, S>(other, row_of<T>(a.k, b, kv, j), a.width, lane);
    const S score = dot(q, other) * static_cast<S>(a.scale);
    const S larger = score > most ? score : most;
    const S shrink = exponential(most - larger), weight = exponential(score - larger);
    load<T, S>(other, row_of<T>(a.v, b, kv, j), a.width, lane);
    for (int e = 0; e < kMaxElements; ++e) sum[e] = sum[e] * shrink + weight * other[e];
    total = total * shrink + weight;
    most = larger;
  }
  for (int e = 0; e < kMaxElements; ++e) sum[e] = limit > 0 ? sum[e] / total : S(0);
  store<T, S>(row_of<T>(a.output, b, h, i), sum, a.width, lane);
  if (lane == 0) *row_of<S>(a.logsumexp, b, h, i) = limit > 0 ? most + logarithm(total) : S(0);
}

template <typename T>
__device__ void attention_grad_q(const Attention& a) {
  typedef typename Sum<T>::type S;
  const i64 row = warp_number();
  const int lane = threadIdx.x & 31;
  if (row >= static_cast<i64>(a.num_batches) * a.heads * a.queries) return;
  const int i = row % a.queries, h = row / a.queries % a.heads;
  const i64 b = row / a.queries / a.heads;
  const int kv = h / (a.heads / a.kv_heads), limit = num_seen(a, i);
  S q[kMaxElements], grad[kMaxElements], k[kMaxElements], v[kMaxElements], sum[kMaxElements] = {};
  load<T, S>(v, row_of<T>(a.output, b, h, i), a.width, lane);
  load<T, S>(grad, row_of<T>(a.grad_output, b, h, i), a.width, lane);
  const S delta = dot(v, grad), logsumexp = *row_of<S>(a.logsumexp, b, h, i);
  load<T, S>(q, row_of<T>(a.q, b, h, i), a.width, lane);
  for (int j = 0; j < limit; ++j) {
    load<T, S>(k, row_of<T>(a.k, b, kv, j), a.width, lane);
    load<T, S>(v, row_of<T>(a.v, b, kv, j), a.width, lane);
    const S weight = exponential(dot(q, k) * static_cast<S>(a.scale) - logsumexp);
    const S grad_score = weight * (dot(grad, v) - delta) * static_cast<S>(a.scale);
    for (int e = 0; e < kMaxElements; ++e) sum[e] += grad_score * k[e];
  }
  store<T, S>(row_of<T>(a.grad_q, b, h, i), sum, a.width, lane);
}

template <typename T>
__device__ void attention_grad_kv(const Attention& a) {
  typedef typename Sum<T>::type S;
  const i64 row = warp_number();
  const int lane = threadIdx.x & 31;
  if (row >= static_cast<i64>(a.num_batches) * a.kv_heads * a.keys) return;
  const int j = row % a.keys, kv = row / a.keys % a.kv_heads;
  const i64 b = row / a.keys / a.kv_heads;
  const int group = a.heads / a.kv_heads;
  S k[kMaxElements], v[kMaxElements], q[kMaxElements], grad[kMaxElements], out[kMaxElements];
  S sum_k[kMaxElements] = {}, sum_v[kMaxElements] = {};
  load<T, S>(k, row_of<T>(a.k, b, kv, j), a.width, lane);
  load<T, S>(v, row_of<T>(a.v, b, kv, j), a.width, lane);
  const int first = a.causal ? max(0, j - (a.keys - a.queries)) : 0;
  for (int h = kv * group; h < (kv + 1) * group; ++h) {
    for (int i = first; i < a.queries; ++i) {
      load<T, S>(q, row_of<T>(a.q, b, h, i), a.width, lane);
      load<T, S>(grad, row_of<T>(a.grad_output, b, h, i), a.width, lane);
      load<T, S>(out, row_of<T>(a.output, b, h, i), a.width, lane);
      const S weight = exponential(dot(q, k) * static_cast<S>(a.scale) -
                                   *row_of<S>(a.logsumexp, b, h, i));
      const S grad_score = weight * (dot(grad, v) - dot(grad, out)) * static_cast<S>(a.scale);
      for (int e = 0; e < kMaxElements; ++e) {
        sum_k[e] += grad_score * q[e];
        sum_v[e] += weight * grad[e];
      }
    }
  }
  store<T, S>(row_of<T>(a.grad_k, b, kv, j), sum_k, a.width, lane);
  store<T, S>(row_of<T>(a.grad_v, b, kv, j), sum_v, a.width, lane);
}

extern "C" __global__ void attention(const Attention a) { attention_forward<Element>(a); }
extern "C" __global__ void attention_grad_q(const Attention a) { attention_grad_q<Element>(a); }
extern "C" __global__ void attention_grad_kv(const Attention a) { attention_grad_kv<Element>(a); }
)cuda";

}  // namespace

std::string attention_kernels_source(ir::DType dtype, int64_t width) {
  const char* const element = dtype == ir::DType::kF32   ? "float"
                              : dtype == ir::DType::kF64 ? "double"
                                                         : "bf16";
  return kernel_types_source() +
         fmt::format("typedef {} Element;\nconstexpr int kMaxElements = {};\n", element,
                     (width + 31) / 32) +
         kAttention;
}

}  // namespace monograph::runtime
