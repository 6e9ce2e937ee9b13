#include "runtime/cpu/eager/vector_functions.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "runtime/cpu/instruction_sets.h"

#define VARIANTS MONOGRAPH_PER_INSTRUCTION_SET
#define INLINE inline __attribute__((always_inline))
#if defined(__x86_64__) && !defined(__clang__)  // libmvec's vector versions, without -ffast-math
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

namespace monograph::runtime {
namespace {

using ir::DType;
using ir::Reduction;
using ir::RegisterType;
using ir::ScalarOp;

// As generated code does it (codegen/cpu/prelude.cc): 1.3 ulp; below 1.9e-38 it is 0.
INLINE float exp_of(float x) {
  const float n = (x * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
  const float r = (x - n * 0.693145751953125f) - n * 1.42860682030941723212e-6f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  int k = static_cast<int>(n < -200.0f ? -200.0f : n > 200.0f ? 200.0f : n);
  k = k < -125 ? -125 : k;
  k = k > 128 ? 128 : k;
  const float e = p * std::bit_cast<float>((k + 126) << 23) * 2.0f;
  const float in_range = x > 88.7228394f ? __builtin_inff() : e;
  return x != x ? x : x < -86.9f ? 0.0f : in_range;
}
INLINE double exp_of(double x) {
  return exp(x);
}

template <typename T>
INLINE T max_of(T a, T b) {
  return (b > a) | (b != b) ? b : a;
}
template <typename T>
INLINE T min_of(T a, T b) {
  return (b < a) | (b != b) ? b : a;
}

template <typename T, typename R, typename F>
INLINE void map1(F f, const VectorOperand* x, void* out, int64_t n) {
  const T* __restrict a = static_cast<const T*>(x[0].data);
  R* __restrict r = static_cast<R*>(out);
  if (!x[0].is_vector) {
    std::fill_n(r, n, f(*a));
    return;
  }
  for (int64_t i = 0; i < n; ++i) r[i] = f(a[i]);
}

template <typename T, typename R, typename F>
INLINE void map2(F f, const VectorOperand* x, void* out, int64_t n) {
  const T* __restrict a = static_cast<const T*>(x[0].data);
  const T* __restrict b = static_cast<const T*>(x[1].data);
  R* __restrict r = static_cast<R*>(out);
  if (x[0].is_vector && x[1].is_vector) {
    for (int64_t i = 0; i < n; ++i) r[i] = f(a[i], b[i]);
  } else if (x[0].is_vector) {
    const T second = *b;
    for (int64_t i = 0; i < n; ++i) r[i] = f(a[i], second);
  } else if (x[1].is_vector) {
    const T first = *a;
    for (int64_t i = 0; i < n; ++i) r[i] = f(first, b[i]);
  } else {
    std::fill_n(r, n, f(*a, *b));
  }
}

#define OF(expression)                        \
  [](auto a) __attribute__((always_inline)) { \
    return expression;                        \
  }
#define OF2(expression)                               \
  [](auto a, auto b) __attribute__((always_inline)) { \
    return expression;                                \
  }

// False when the op is none of these.
template <typename T>
INLINE bool arithmetic(ScalarOp op, const VectorOperand* x, void* out, int64_t n) {
  switch (op) {
    case ScalarOp::kAdd:
      return map2<T, T>(OF2(a + b), x, out, n), true;
    case ScalarOp::kSub:
      return map2<T, T>(OF2(a - b), x, out, n), true;
    case ScalarOp::kMul:
      return map2<T, T>(OF2(a * b), x, out, n), true;
    case ScalarOp::kMaximum:
      return map2<T, T>(OF2(max_of(a, b)), x, out, n), true;
    case ScalarOp::kMinimum:
      return map2<T, T>(OF2(min_of(a, b)), x, out, n), true;
    case ScalarOp::kNeg:
      return map1<T, T>(OF(static_cast<T>(-a)), x, out, n), true;
    case ScalarOp::kAbs:
      return map1<T, T>(OF(a < 0 ? static_cast<T>(-a) : static_cast<T>(a + T(0))), x, out, n), true;
    case ScalarOp::kDiv:
      return map2<T, T>(OF2(static_cast<T>(a / b)), x, out, n), true;
    default:
      return false;
  }
}

template <typename T>
INLINE bool comparison(ScalarOp op, const VectorOperand* x, void* out, int64_t n) {
  switch (op) {
    case ScalarOp::kEq:
      return map2<T, uint8_t>(OF2(static_cast<uint8_t>(a == b)), x, out, n), true;
    case ScalarOp::kNe:
      return map2<T, uint8_t>(OF2(static_cast<uint8_t>(a != b)), x, out, n), true;
    case ScalarOp::kLt:
      return map2<T, uint8_t>(OF2(static_cast<uint8_t>(a < b)), x, out, n), true;
    case ScalarOp::kLe:
      return map2<T, uint8_t>(OF2(static_cast<uint8_t>(a <= b)), x, out, n), true;
    case ScalarOp::kGt:
      return map2<T, uint8_t>(OF2(static_cast<uint8_t>(a > b)), x, out, n), true;
    case ScalarOp::kGe:
      return map2<T, uint8_t>(OF2(static_cast<uint8_t>(a >= b)), x, out, n), true;
    default:
      return false;
  }
}

VARIANTS bool float_function(ScalarOp op, const VectorOperand* x, void* out, int64_t n) {
  using T = float;
  switch (op) {
    case ScalarOp::kExp:
      return map1<T, T>(OF(exp_of(a)), x, out, n), true;
    case ScalarOp::kTanh:
      return map1<T, T>(OF(tanhf(a)), x, out, n), true;
    case ScalarOp::kErf:
      return map1<T, T>(OF(erff(a)), x, out, n), true;
    case ScalarOp::kLog:
      return map1<T, T>(OF(logf(a)), x, out, n), true;
    case ScalarOp::kSin:
      return map1<T, T>(OF(sinf(a)), x, out, n), true;
    case ScalarOp::kCos:
      return map1<T, T>(OF(cosf(a)), x, out, n), true;
    case ScalarOp::kPow:
      return map2<T, T>(OF2(powf(a, b)), x, out, n), true;
    case ScalarOp::kSqrt:
      return map1<T, T>(OF(__builtin_sqrtf(a)), x, out, n), true;
    case ScalarOp::kRsqrt:
      return map1<T, T>(OF(1.0f / __builtin_sqrtf(a)), x, out, n), true;
    case ScalarOp::kReciprocal:
      return map1<T, T>(OF(1.0f / a), x, out, n), true;
    default:
      return arithmetic<T>(op, x, out, n);
  }
}

VARIANTS bool double_function(ScalarOp op, const VectorOperand* x, void* out, int64_t n) {
  using T = double;
  switch (op) {
    case ScalarOp::kExp:
      return map1<T, T>(OF(exp_of(a)), x, out, n), true;
    case ScalarOp::kTanh:
      return map1<T, T>(OF(tanh(a)), x, out, n), true;
    case ScalarOp::kErf:
      return map1<T, T>(OF(erf(a)), x, out, n), true;
    case ScalarOp::kLog:
      return map1<T, T>(OF(log(a)), x, out, n), true;
    case ScalarOp::kSin:
      return map1<T, T>(OF(sin(a)), x, out, n), true;
    case ScalarOp::kCos:
      return map1<T, T>(OF(cos(a)), x, out, n), true;
    case ScalarOp::kPow:
      return map2<T, T>(OF2(pow(a, b)), x, out, n), true;
    case ScalarOp::kSqrt:
      return map1<T, T>(OF(__builtin_sqrt(a)), x, out, n), true;
    case ScalarOp::kRsqrt:
      return map1<T, T>(OF(1.0 / __builtin_sqrt(a)), x, out, n), true;
    case ScalarOp::kReciprocal:
      return map1<T, T>(OF(1.0 / a), x, out, n), true;
    default:
      return arithmetic<T>(op, x, out, n);
  }
}

VARIANTS bool integer_function(ScalarOp op, const VectorOperand* x, void* out, int64_t n) {
  if (op != ScalarOp::kPow) return arithmetic<int64_t>(op, x, out, n);
  map2<int64_t, int64_t>(
      OF2(static_cast<int64_t>(pow(static_cast<double>(a), static_cast<double>(b)))), x, out, n);
  return true;
}

VARIANTS bool logical_function(ScalarOp op, const VectorOperand* x, void* out, int64_t n) {
  using T = uint8_t;
  switch (op) {
    case ScalarOp::kLogicalAnd:
      return map2<T, T>(OF2(static_cast<T>(a & b)), x, out, n), true;
    case ScalarOp::kLogicalOr:
      return map2<T, T>(OF2(static_cast<T>(a | b)), x, out, n), true;
    case ScalarOp::kLogicalNot:
      return map1<T, T>(OF(static_cast<T>(a == 0)), x, out, n), true;
    default:
      return false;
  }
}

VARIANTS bool compare(ScalarOp op, RegisterType type, const VectorOperand* x, void* out,
                      int64_t n) {
  switch (type) {
    case RegisterType::kF32:
      return comparison<float>(op, x, out, n);
    case RegisterType::kF64:
      return comparison<double>(op, x, out, n);
    case RegisterType::kI64:
      return comparison<int64_t>(op, x, out, n);
    case RegisterType::kBool:
      return comparison<uint8_t>(op, x, out, n);
  }
  return false;
}

template <typename T>
INLINE void select(const VectorOperand* x, void* out, int64_t n) {
  const auto* __restrict c = static_cast<const uint8_t*>(x[0].data);
  const T* __restrict a = static_cast<const T*>(x[1].data);
  const T* __restrict b = static_cast<const T*>(x[2].data);
  T* __restrict r = static_cast<T*>(out);
  const int64_t step_c = x[0].is_vector, step_a = x[1].is_vector, step_b = x[2].is_vector;
  for (int64_t i = 0; i < n; ++i) r[i] = c[i * step_c] != 0 ? a[i * step_a] : b[i * step_b];
}

VARIANTS void where(RegisterType type, const VectorOperand* x, void* out, int64_t n) {
  switch (type) {
    case RegisterType::kF32:
      return select<float>(x, out, n);
    case RegisterType::kF64:
      return select<double>(x, out, n);
    case RegisterType::kI64:
      return select<int64_t>(x, out, n);
    case RegisterType::kBool:
      return select<uint8_t>(x, out, n);
  }
}

template <typename T>
INLINE void convert_from(RegisterType to, const VectorOperand* x, void* out, int64_t n) {
  switch (to) {
    case RegisterType::kF32:
      return map1<T, float>(OF(static_cast<float>(a)), x, out, n);
    case RegisterType::kF64:
      return map1<T, double>(OF(static_cast<double>(a)), x, out, n);
    case RegisterType::kI64:
      return map1<T, int64_t>(OF(static_cast<int64_t>(a)), x, out, n);
    case RegisterType::kBool:
      return map1<T, uint8_t>(OF(static_cast<uint8_t>(a != 0)), x, out, n);
  }
}

VARIANTS void convert(RegisterType from, RegisterType to, const VectorOperand* x, void* out,
                      int64_t n) {
  switch (from) {
    case RegisterType::kF32:
      return convert_from<float>(to, x, out, n);
    case RegisterType::kF64:
      return convert_from<double>(to, x, out, n);
    case RegisterType::kI64:
      return convert_from<int64_t>(to, x, out, n);
    case RegisterType::kBool:
      return convert_from<uint8_t>(to, x, out, n);
  }
}

// Lanes of their own, so that the compiler may add side by side; floats are added up in double
// after each run.
template <typename T, typename Total, typename F>
INLINE Total fold(F f, const VectorOperand& values, Total total, int64_t n) {
  constexpr int kLanes = 16;
  const T* const x = static_cast<const T*>(values.data);
  if (!values.is_vector) {
    for (int64_t i = 0; i < n; ++i) total = f(total, static_cast<Total>(*x));
    return total;
  }
  const int64_t whole = n / kLanes * kLanes;
  if (whole > 0) {
    T lanes[kLanes];
    std::copy_n(x, kLanes, lanes);
    for (int64_t i = kLanes; i < whole; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] = f(lanes[l], x[i + l]);
    }
    for (const T lane : lanes) total = f(total, static_cast<Total>(lane));
  }
  for (int64_t i = whole; i < n; ++i) total = f(total, static_cast<Total>(x[i]));
  return total;
}

template <typename T, typename Total>
INLINE void reduce_by(Reduction reduction, const VectorOperand& values, void* total, int64_t n) {
  Total& sum = *static_cast<Total*>(total);
  if (reduction == Reduction::kSum) {
    sum = fold<T>(OF2(a + b), values, sum, n);
  } else {
    sum = fold<T>(OF2(max_of(a, b)), values, sum, n);
  }
}

template <typename T>
INLINE void accumulate_by(Reduction reduction, const VectorOperand& values, void* totals,
                          int64_t n) {
  T* __restrict total = static_cast<T*>(totals);
  const T* __restrict x = static_cast<const T*>(values.data);
  const int64_t step = values.is_vector;
  if (reduction == Reduction::kSum && step == 1) {
    for (int64_t i = 0; i < n; ++i) total[i] += x[i];
  } else if (reduction == Reduction::kSum) {
    for (int64_t i = 0; i < n; ++i) total[i] += *x;
  } else {
    for (int64_t i = 0; i < n; ++i) total[i] = max_of(total[i], x[i * step]);
  }
}

template <typename Stored, typename R, typename F>
INLINE void load_by(F f, const void* source, int64_t stride, void* out, int64_t n) {
  const Stored* __restrict x = static_cast<const Stored*>(source);
  R* __restrict r = static_cast<R*>(out);
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) r[i] = f(x[i]);
  } else if (stride == 0) {
    std::fill_n(r, n, f(*x));
  } else {
    for (int64_t i = 0; i < n; ++i) r[i] = f(x[i * stride]);
  }
}

INLINE float from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
INLINE uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>(x != x ? 0x7fc0u : rounded);
}

template <typename R, typename Stored, typename F>
INLINE void store_by(F f, const VectorOperand& values, void* target, int64_t stride, int64_t n) {
  const R* __restrict x = static_cast<const R*>(values.data);
  Stored* __restrict r = static_cast<Stored*>(target);
  if (stride == 1 && values.is_vector) {
    for (int64_t i = 0; i < n; ++i) r[i] = f(x[i]);
  } else {
    const int64_t step = values.is_vector;
    for (int64_t i = 0; i < n; ++i) r[i * stride] = f(x[i * step]);
  }
}

}  // namespace

int64_t register_bytes(RegisterType type) {
  return type == RegisterType::kF32 ? 4 : type == RegisterType::kBool ? 1 : 8;
}

void apply(ScalarOp op, RegisterType from, RegisterType type, const VectorOperand* x, void* out,
           int64_t n) {
  if (op == ScalarOp::kConvert) return convert(from, type, x, out, n);
  if (op == ScalarOp::kWhere) return where(type, x, out, n);
  bool is_done = false;
  if (type == RegisterType::kBool) {
    is_done = logical_function(op, x, out, n) || compare(op, from, x, out, n);
  } else if (type == RegisterType::kF32) {
    is_done = float_function(op, x, out, n);
  } else if (type == RegisterType::kF64) {
    is_done = double_function(op, x, out, n);
  } else {
    is_done = integer_function(op, x, out, n);
  }
  check(is_done, "the eager path has no {}", ir::scalar_op_name(op));
}

VARIANTS void load_elements(DType dtype, const void* source, int64_t stride, void* out, int64_t n) {
  switch (dtype) {
    case DType::kF32:
      return load_by<float, float>(OF(a), source, stride, out, n);
    case DType::kF64:
      return load_by<double, double>(OF(a), source, stride, out, n);
    case DType::kBF16:
      return load_by<uint16_t, float>(OF(from_bf16(a)), source, stride, out, n);
    case DType::kF16:
      return load_by<_Float16, float>(OF(static_cast<float>(a)), source, stride, out, n);
    case DType::kI64:
      return load_by<int64_t, int64_t>(OF(a), source, stride, out, n);
    case DType::kI32:
      return load_by<int32_t, int64_t>(OF(int64_t{a}), source, stride, out, n);
    case DType::kU16:
      return load_by<uint16_t, int64_t>(OF(int64_t{a}), source, stride, out, n);
    case DType::kU8:
      return load_by<uint8_t, int64_t>(OF(int64_t{a}), source, stride, out, n);
    case DType::kBool:
      return load_by<uint8_t, uint8_t>(OF(static_cast<uint8_t>(a != 0)), source, stride, out, n);
  }
}

VARIANTS void store_elements(DType dtype, const VectorOperand& values, void* target, int64_t stride,
                             int64_t n) {
  switch (dtype) {
    case DType::kF32:
      return store_by<float, float>(OF(a), values, target, stride, n);
    case DType::kF64:
      return store_by<double, double>(OF(a), values, target, stride, n);
    case DType::kBF16:
      return store_by<float, uint16_t>(OF(to_bf16(a)), values, target, stride, n);
    case DType::kF16:
      return store_by<float, _Float16>(OF(static_cast<_Float16>(a)), values, target, stride, n);
    case DType::kI64:
      return store_by<int64_t, int64_t>(OF(a), values, target, stride, n);
    case DType::kI32:
      return store_by<int64_t, int32_t>(OF(static_cast<int32_t>(a)), values, target, stride, n);
    case DType::kU16:
      return store_by<int64_t, uint16_t>(OF(static_cast<uint16_t>(a)), values, target, stride, n);
    case DType::kU8:
      return store_by<int64_t, uint8_t>(OF(static_cast<uint8_t>(a)), values, target, stride, n);
    case DType::kBool:
      return store_by<uint8_t, uint8_t>(OF(a), values, target, stride, n);
  }
}

VARIANTS void reduce(Reduction reduction, RegisterType type, const VectorOperand& values,
                     void* total, int64_t n) {
  switch (type) {
    case RegisterType::kF32:
      return reduce_by<float, double>(reduction, values, total, n);
    case RegisterType::kF64:
      return reduce_by<double, double>(reduction, values, total, n);
    default:
      return reduce_by<int64_t, int64_t>(reduction, values, total, n);
  }
}

VARIANTS void accumulate(Reduction reduction, RegisterType type, const VectorOperand& values,
                         void* totals, int64_t n) {
  switch (type) {
    case RegisterType::kF32:
      return accumulate_by<float>(reduction, values, totals, n);
    case RegisterType::kF64:
      return accumulate_by<double>(reduction, values, totals, n);
    default:
      return accumulate_by<int64_t>(reduction, values, totals, n);
  }
}

}  // namespace monograph::runtime
