#include "codegen/cuda/prelude.h"

namespace monograph::codegen::cuda {
namespace {

// Functions are named as in the C++ that the CPU's renderer begins with.
constexpr std::string_view kPrelude =
    R"cpp(typedef unsigned char u8;
          typedef unsigned short u16;
          typedef unsigned int u32;
          typedef unsigned long u64;
#define INLINE __device__ __forceinline__
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000)

          // --- numbers
          typedef u16 bf16;
          INLINE float from_bf16(bf16 bits) {
            return __uint_as_float((u32)bits << 16);
          }
          INLINE bf16 to_bf16(float x) {  // nearest even
            bf16 result;
            asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(x));
            return result;
          }
          INLINE u32 to_bf16_pair(float low, float high) {
            u32 result;
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
            return result;
          }
          struct f16 {
            u16 bits;
            f16() = default;
            explicit INLINE f16(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
            INLINE operator float() const {
              float result;
              asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(bits));
              return result;
            }
          };
#define _Float16 f16

          INLINE float exp_of(float x) {
            return expf(x);
          }
          INLINE double exp_of(double x) {
            return exp(x);
          }
          // For arguments that were rounded to 16 bits before: 2^-24 of x is lost in the product,
          // less than a hundredth of what the rounding lost.
          INLINE float exp_of_rounded(float x) {
            float result;
            asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 1.44269504088896341f));
            return result;
          }
          INLINE float tanh_of(float x) {
            return tanhf(x);
          }
          // Likewise: within 2^-14 of tanh(x), relatively, a thirtieth of what rounding to bf16
          // loses.
          INLINE float tanh_of_rounded(float x) {
            float power, inverse;
            asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 2.88539008177792681f));
            asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(power + 1.0f));
            const float result = fmaf(-2.0f, inverse, 1.0f);
            return fabsf(x) < 0x1p-7f ? x : result;
          }
          // a / b within 2 units in the last place.
          INLINE float divide_rounded(float a, float b) {
            float result;
            asm("div.full.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
            return result;
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
            return sqrtf(x);
          }
          INLINE double sqrt_of(double x) {
            return sqrt(x);
          }
          INLINE float abs_of(float x) {
            return fabsf(x);
          }
          INLINE double abs_of(double x) {
            return fabs(x);
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
          template <>
          INLINE float max_of<float>(float a, float b) {
            float result;
            asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
            return result;
          }
          template <typename T>
          INLINE T min_of(T a, T b) {
            return (b < a) | (b != b) ? b : a;
          }
          template <>
          INLINE float min_of<float>(float a, float b) {
            float result;
            asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
            return result;
          }
          // Nearest int: comparing with numbers strictly inside the range of int gives the
          // same answer.
          INLINE int narrow(long x) {
            return (int)(x < -2147483647L - 1 ? -2147483647L - 1 : x > 2147483647L ? 2147483647L : x);
          }

          // --- memory: neighbouring elements at once, at most 16 bytes an access
          template <typename T, int kWidth>
          struct alignas(sizeof(T) * kWidth < 16 ? sizeof(T) * kWidth : 16) Pack {
            T at[kWidth];
          };
          template <int kWidth, typename T>
          INLINE Pack<T, kWidth> load_pack(const T* from) {
            return *(const Pack<T, kWidth>*)from;
          }
          // From memory that nobody writes during the launch.
          template <typename T>
          INLINE T load_constant(const T* from) {
            return __ldg(from);
          }
          INLINE f16 load_constant(const f16* from) {
            f16 result;
            result.bits = __ldg((const u16*)from);
            return result;
          }
          template <int kWidth, typename T>
          INLINE Pack<T, kWidth> load_constant_pack(const T* from) {
            Pack<T, kWidth> pack;
            if constexpr (sizeof pack % 16 == 0) {
#pragma unroll
              for (int k = 0; k < sizeof pack / 16; ++k) {
                ((uint4*)&pack)[k] = __ldg((const uint4*)from + k);
              }
            } else if constexpr (sizeof pack == 8) {
              *(uint2*)&pack = __ldg((const uint2*)from);
            } else if constexpr (sizeof pack == 4) {
              *(u32*)&pack = __ldg((const u32*)from);
            } else {
#pragma unroll
              for (int k = 0; k < kWidth; ++k) pack.at[k] = load_constant(from + k);
            }
            return pack;
          }
          template <int kWidth, typename T>
          INLINE void store_pack(T* to, const Pack<T, kWidth>& pack) {
            *(Pack<T, kWidth>*)to = pack;
          }
          template <int kWidth>
          INLINE Pack<bf16, kWidth> to_bf16_pack(const Pack<float, kWidth>& values) {
            Pack<bf16, kWidth> pack;
            if constexpr (kWidth % 2 == 0) {
#pragma unroll
              for (int k = 0; k < kWidth; k += 2) {
                ((u32*)&pack)[k / 2] = to_bf16_pair(values.at[k], values.at[k + 1]);
              }
            } else {
              pack.at[0] = to_bf16(values.at[0]);
            }
            return pack;
          }

          // The largest of a pack and of `largest`, two elements at a time.
          template <int kWidth>
          INLINE float max_of_pack(float largest, const Pack<bf16, kWidth>& pack) {
            if constexpr (kWidth % 2 != 0) {
#pragma unroll
              for (int k = 0; k < kWidth; ++k) {
                largest = max_of<float>(largest, from_bf16(pack.at[k]));
              }
              return largest;
            } else {
              u32 pair = ((const u32*)&pack)[0];
#pragma unroll
              for (int k = 1; k < kWidth / 2; ++k) {
                asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(pair) : "r"(pair), "r"(((const u32*)&pack)[k]));
              }
              largest = max_of<float>(largest, __uint_as_float(pair << 16));
              return max_of<float>(largest, __uint_as_float(pair & 0xffff0000u));
            }
          }

          // --- rows that the copy engine brings to shared memory (Hopper on)
          INLINE u32 shared_address(const void* place) {
            return (u32)__cvta_generic_to_shared(place);
          }
          INLINE void start_arrivals(u64* arrivals) {  // two; by one thread, before a barrier
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              asm volatile(
                  "mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(arrivals + half))
                  : "memory");
            }
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
          }
          INLINE void expect_bytes(u64* arrival, u32 num_bytes) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                             shared_address(arrival)),
                         "r"(num_bytes)
                         : "memory");
          }
          INLINE void bring(void* to, const void* from, u32 num_bytes, u64* arrival) {
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                " [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                "l"(__cvta_generic_to_global(from)), "r"(num_bytes), "r"(shared_address(arrival))
                : "memory");
          }
          INLINE void wait_for_arrival(u64* arrival, u32 parity) {
            asm volatile(
                "{\n.reg .pred done;\nwait: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], "
                "%1;\n"
                "@!done bra wait;\n}" ::"r"(shared_address(arrival)),
                "r"(parity)
                : "memory");
          }

          // --- Philox4x32-10
          struct Words {
            u32 w0, w1, w2, w3;
          };
          INLINE Words philox(u64 group, u64 seed, u32 step, u32 stream) {
            u32 c0 = (u32)group, c1 = (u32)(group >> 32), c2 = step, c3 = stream;
            u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
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
            return (float)(word >> 8) * 0x1p-24f;
          }
          INLINE float philox_one(long element, long seed, long step, u32 stream) {
            const Words w = philox((u64)element >> 2, (u64)seed, (u32)step, stream);
            const u32 low = element & 1 ? w.w1 : w.w0, high = element & 1 ? w.w3 : w.w2;
            return unit_float(element & 2 ? high : low);
          }
          // Elements first .. first + kWidth - 1; first and kWidth are multiples of 4.
          template <int kWidth>
          INLINE Pack<float, kWidth> philox_pack(long first, long seed, long step, u32 stream) {
            Pack<float, kWidth> pack;
#pragma unroll
            for (int k = 0; k < kWidth; k += 4) {
              const Words w = philox((u64)(first + k) >> 2, (u64)seed, (u32)step, stream);
              pack.at[k] = unit_float(w.w0);
              pack.at[k + 1] = unit_float(w.w1);
              pack.at[k + 2] = unit_float(w.w2);
              pack.at[k + 3] = unit_float(w.w3);
            }
            return pack;
          }

          // --- reductions, always in one order
          struct Sum {
            template <typename T>
            static INLINE T of(T a, T b) {
              return a + b;
            }
            template <typename T>
            static INLINE T zero() {
              return 0;
            }
          };
          struct Max {
            template <typename T>
            static INLINE T of(T a, T b) {
              return max_of<T>(a, b);
            }
            template <typename T>
            static INLINE T zero();
          };
          template <>
          INLINE float Max::zero<float>() {
            return -__builtin_inff();
          }
          template <>
          INLINE double Max::zero<double>() {
            return -__builtin_inf();
          }
          template <>
          INLINE int Max::zero<int>() {
            return -2147483647 - 1;
          }
          template <>
          INLINE long Max::zero<long>() {
            return -9223372036854775807L - 1;
          }

          // Over kThreads neighbouring threads of a warp, all of which get the result.
          template <typename Op, int kThreads, typename T>
          INLINE T reduce_lanes(T value) {
            u32 mask = 0xffffffffu;
            if constexpr (kThreads < 32) {
              mask = ((1u << kThreads) - 1) << (threadIdx.x % 32 / kThreads * kThreads);
            }
#pragma unroll
            for (int step = kThreads / 2; step > 0; step /= 2) {
              value = Op::template of<T>(value, __shfl_xor_sync(mask, value, step));
            }
            return value;
          }
          // A barrier for the kThreads threads of a group; a block of one group has number -1.
          template <int kThreads>
          INLINE void wait_for_group(int group) {
            if constexpr (kThreads < 32) {
              __syncwarp(((1u << kThreads) - 1) << (threadIdx.x % 32 / kThreads * kThreads));
            } else if constexpr (kThreads == 32) {
              __syncwarp();
            } else if (group < 0) {
              __syncthreads();
            } else {
              asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kThreads) : "memory");
            }
          }
          // The warps' results of a group, from `parts`: in order of warps, many as a butterfly.
          template <typename Op, int kWarps, typename T>
          INLINE T reduce_warps(const T* parts) {
            if constexpr (kWarps >= 16) return reduce_lanes<Op, kWarps>(parts[threadIdx.x % kWarps]);
            T total = parts[0];
#pragma unroll
            for (int warp = 1; warp < kWarps; ++warp) {
              total = Op::template of<T>(total, parts[warp]);
            }
            return total;
          }
          // Over a block of kThreads, a multiple of 32 or less than 32; all get the result.
          template <typename Op, int kThreads, typename T>
          INLINE T reduce_block(T value) {
            if constexpr (kThreads <= 32) {
              return reduce_lanes<Op, kThreads>(value);
            } else {
              __shared__ T parts[kThreads / 32];
              value = reduce_lanes<Op, 32>(value);
              __syncthreads();  // another reduction may still be reading
              if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
              __syncthreads();
              return reduce_warps<Op, kThreads / 32>(parts);
            }
          }

          // The partial results of all blocks, `stride` apart, for a launch of 256 threads.
          template <typename Op, typename T>
          INLINE T reduce_parts(const T* parts, int count) {
            T total = Op::template zero<T>();
            for (int block = threadIdx.x; block < count; block += 256) {
              total = Op::template of<T>(total, parts[block]);
            }
            return reduce_block<Op, 256>(total);
          }
          // Of 32 columns at once; threads 0..31 get the results.
          template <typename Op, typename T>
          INLINE T reduce_column_parts(const T* parts, int count, long stride, bool is_column) {
            __shared__ T shared[8][32];
            const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
            T total = Op::template zero<T>();
            if (is_column) {
#pragma unroll 4
              for (int block = warp; block < count; block += 8) {
                total = Op::template of<T>(total, parts[stride * block]);
              }
            }
            shared[warp][lane] = total;
            __syncthreads();
            if (warp > 0) return total;
#pragma unroll
            for (int w = 1; w < 8; ++w) total = Op::template of<T>(total, shared[w][lane]);
            return total;
          }
    )cpp";

}  // namespace

std::string_view prelude() {
  return kPrelude;
}

}  // namespace monograph::codegen::cuda
