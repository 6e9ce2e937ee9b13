#include "comm/element_type.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace monograph::comm {
namespace {

struct BFloat16 {
  uint16_t bits;

  float value() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  static BFloat16 from(float value) {
    const uint32_t wide = std::bit_cast<uint32_t>(value);
    if (std::isnan(value)) return {static_cast<uint16_t>((wide >> 16) | 0x40)};
    return {static_cast<uint16_t>((wide + 0x7FFF + ((wide >> 16) & 1)) >> 16)};
  }
};

struct Float16 {
  _Float16 number;

  float value() const { return static_cast<float>(number); }
  static Float16 from(float value) { return {static_cast<_Float16>(value)}; }
};

template <ReduceOp Op, typename Number>
Number combine(Number a, Number b) {
  if constexpr (Op == ReduceOp::kSum) {
    if constexpr (std::is_integral_v<Number>) {
      using Unsigned = std::make_unsigned_t<Number>;  // signed overflow is undefined
      return static_cast<Number>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  } else {
    if constexpr (std::is_floating_point_v<Number>) {
      if (a != a) return a;
      if (b != b) return b;
    }
    if constexpr (Op == ReduceOp::kMax) return a < b ? b : a;
    return b < a ? b : a;
  }
}

template <ReduceOp Op, typename Element>
void reduce_elements(void* accumulator, const void* value, int64_t count) {
  Element* to = static_cast<Element*>(accumulator);
  const Element* from = static_cast<const Element*>(value);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_arithmetic_v<Element>) {
      to[i] = combine<Op>(to[i], from[i]);
    } else {
      to[i] = Element::from(combine<Op>(to[i].value(), from[i].value()));
    }
  }
}

template <ReduceOp Op>
void reduce_typed(void* accumulator, const void* value, int64_t count, ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return reduce_elements<Op, float>(accumulator, value, count);
    case ElementType::kF64:
      return reduce_elements<Op, double>(accumulator, value, count);
    case ElementType::kBF16:
      return reduce_elements<Op, BFloat16>(accumulator, value, count);
    case ElementType::kF16:
      return reduce_elements<Op, Float16>(accumulator, value, count);
    case ElementType::kI32:
      return reduce_elements<Op, int32_t>(accumulator, value, count);
    case ElementType::kI64:
      return reduce_elements<Op, int64_t>(accumulator, value, count);
    case ElementType::kU8:
      return reduce_elements<Op, uint8_t>(accumulator, value, count);
  }
  throw_internal_error("element type {}", static_cast<int>(type));
}

}  // namespace

int64_t bytes_of(ElementType type) {
  static constexpr int64_t kBytes[] = {4, 8, 2, 2, 4, 8, 1};
  return kBytes[static_cast<size_t>(type)];
}

std::string_view name_of(ElementType type) {
  static constexpr std::string_view kNames[] = {"f32", "f64", "bf16", "f16", "i32", "i64", "u8"};
  return kNames[static_cast<size_t>(type)];
}

std::string_view name_of(ReduceOp op) {
  static constexpr std::string_view kNames[] = {"sum", "max", "min"};
  return kNames[static_cast<size_t>(op)];
}

void reduce_into(void* accumulator, const void* value, int64_t count, ElementType type,
                 ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return reduce_typed<ReduceOp::kSum>(accumulator, value, count, type);
    case ReduceOp::kMax:
      return reduce_typed<ReduceOp::kMax>(accumulator, value, count, type);
    case ReduceOp::kMin:
      return reduce_typed<ReduceOp::kMin>(accumulator, value, count, type);
  }
  throw_internal_error("reduce op {}", static_cast<int>(op));
}

}  // namespace monograph::comm
