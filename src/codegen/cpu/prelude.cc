#include "codegen/cpu/prelude.h"

namespace monograph::codegen {
namespace {

constexpr std::string_view kPrelude =
    R"cpp(typedef unsigned int u32;
          typedef unsigned long u64;
#define INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__)  // libmvec's vector versions, without -ffast-math
#define VECTORIZED __attribute__((simd("notinbranch"), const))
#else
#define VECTORIZED __attribute__((const))
#endif
          extern "C" {
          VECTORIZED float tanhf(float) noexcept;
          VECTORIZED float erff(float) noexcept;
          VECTORIZED float logf(float) noexcept;
          VECTORIZED float sinf(float) noexcept;
          VECTORIZED float cosf(float) noexcept;
          VECTORIZED float powf(float, float) noexcept;
          VECTORIZED double exp(double) noexcept;
          VECTORIZED double tanh(double) noexcept;
          VECTORIZED double erf(double) noexcept;
          VECTORIZED double log(double) noexcept;
          VECTORIZED double sin(double) noexcept;
          VECTORIZED double cos(double) noexcept;
          VECTORIZED double pow(double, double) noexcept;
          }

          INLINE float fma_of(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
            return __builtin_fmaf(a, b, c);
#else
            return a * b + c;
#endif
          }

          // Own exponential, 1.3 ulp: libmvec's takes a scalar path, 20 times slower, for
          // results that are denormal or zero, and a masked score is always one. Results
          // below 1.9e-38 become 0.
          INLINE float exp_of(float x) {
            const float n = fma_of(x, 1.44269504088896341f, 12582912.0f) - 12582912.0f;
            const float high = fma_of(n, -0.693145751953125f, x);
            const float r = fma_of(n, -1.42860682030941723212e-6f, high);
            float p = fma_of(1.9875691500e-4f, r, 1.3981999507e-3f);
            p = fma_of(p, r, 8.3334519073e-3f);
            p = fma_of(p, r, 4.1665795894e-2f);
            p = fma_of(p, r, 1.6666665459e-1f);
            p = fma_of(p, r, 5.0000001201e-1f);
            p = fma_of(p * r, r, r) + 1.0f;
            int k = (int)n;
            k = k < -125 ? -125 : k;
            k = k > 128 ? 128 : k;
            const float e = p * __builtin_bit_cast(float, (k + 126) << 23) * 2.0f;
            return x < -86.9f ? 0.0f : x > 88.7228394f ? __builtin_inff() : e;
          }
          INLINE double exp_of(double x) {
            return exp(x);
          }
          INLINE float tanh_of(float x) {
            return tanhf(x);
          }
          INLINE double tanh_of(double x) {
            return tanh(x);
          }
          INLINE float erf_of(float x) {
            return erff(x);
          }
          INLINE double erf_of(double x) {
            return erf(x);
          }
          INLINE float log_of(float x) {
            return logf(x);
          }
          INLINE double log_of(double x) {
            return log(x);
          }
          INLINE float sin_of(float x) {
            return sinf(x);
          }
          INLINE double sin_of(double x) {
            return sin(x);
          }
          INLINE float cos_of(float x) {
            return cosf(x);
          }
          INLINE double cos_of(double x) {
            return cos(x);
          }
          INLINE float pow_of(float x, float y) {
            return powf(x, y);
          }
          INLINE double pow_of(double x, double y) {
            return pow(x, y);
          }
          INLINE float sqrt_of(float x) {
            return __builtin_sqrtf(x);
          }
          INLINE double sqrt_of(double x) {
            return __builtin_sqrt(x);
          }
          INLINE float abs_of(float x) {
            return __builtin_fabsf(x);
          }
          INLINE double abs_of(double x) {
            return __builtin_fabs(x);
          }
          INLINE int abs_of(int x) {
            return x < 0 ? -x : x;
          }
          INLINE long abs_of(long x) {
            return x < 0 ? -x : x;
          }

          // NaN wins.
          template <typename T>
          INLINE T max_of(T a, T b) {
            return (b > a) | (b != b) ? b : a;
          }
          template <typename T>
          INLINE T min_of(T a, T b) {
            return (b < a) | (b != b) ? b : a;
          }

          // Nearest int: comparing with numbers strictly inside the range of int gives the
          // same answer.
          INLINE int narrow(long x) {
            return (int)(x < -2147483647L - 1 ? -2147483647L - 1 : x > 2147483647L ? 2147483647L : x);
          }

          typedef unsigned short bf16;
          INLINE float from_bf16(bf16 bits) {
            return __builtin_bit_cast(float, (u32)bits << 16);
          }
          INLINE bf16 to_bf16(float x) {  // nearest even
            const u32 bits = __builtin_bit_cast(u32, x);
            const u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
            return (bf16)(x != x ? 0x7fc0u : rounded);
          }

          // Philox4x32-10: the four words of group `group` of a stream.
          struct Words {
            u32 w0, w1, w2, w3;
          };
          INLINE Words philox(u64 group, u64 seed, u32 step, u32 stream) {
            u32 c0 = (u32)group, c1 = (u32)(group >> 32), c2 = step, c3 = stream;
            u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma GCC unroll 10
            for (int round = 0; round < 10; ++round) {
              const u64 p0 = (u64)c0 * 0xD2511F53u, p1 = (u64)c2 * 0xCD9E8D57u;
              c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
              c1 = (u32)p1;
              c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
              c3 = (u32)p0;
              k0 += 0x9E3779B9u;
              k1 += 0xBB67AE85u;
            }
            return {c0, c1, c2, c3};
          }
          INLINE float unit_float(u32 word) {
            return (float)(int)(word >> 8) * 0x1p-24f;
          }
          INLINE float philox_one(long element, long seed, long step, u32 stream) {
            const Words w = philox((u64)element >> 2, (u64)seed, (u32)step, stream);
            const u32 low = element & 1 ? w.w1 : w.w0, high = element & 1 ? w.w3 : w.w2;
            return unit_float(element & 2 ? high : low);
          }
          // Uniform numbers of elements first .. first + n - 1 into u, from u[first % 4] on;
          // returns first % 4.
          static __attribute__((noinline, unused)) int philox_fill(float* u, long first, long n,
                                                                   long seed, long step,
                                                                   u32 stream) {
            const int head = (int)(first & 3);
            const long groups = (head + n + 3) >> 2;
#pragma omp simd
            for (int g = 0; g < (int)groups; ++g) {
              const Words w = philox(((u64)first >> 2) + (u64)g, (u64)seed, (u32)step, stream);
              u[4 * g] = unit_float(w.w0);
              u[4 * g + 1] = unit_float(w.w1);
              u[4 * g + 2] = unit_float(w.w2);
              u[4 * g + 3] = unit_float(w.w3);
            }
            return head;
          }
    )cpp";

}  // namespace

std::string_view prelude() {
  return kPrelude;
}

}  // namespace monograph::codegen
