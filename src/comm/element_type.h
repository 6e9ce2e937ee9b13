#pragma once

#include <cstdint>
#include <string_view>

namespace monograph::comm {

enum class ElementType : uint8_t { kF32, kF64, kBF16, kF16, kI32, kI64, kU8 };
// A mean is a sum and a multiplication in the graph.
enum class ReduceOp : uint8_t { kSum, kMax, kMin };

int64_t bytes_of(ElementType type);
std::string_view name_of(ElementType type);  // "f32"
std::string_view name_of(ReduceOp op);       // "sum"

// accumulator[i] = op(accumulator[i], value[i]). bf16 and f16 are computed in float32 and rounded
// to the nearest even; a NaN in either stays a NaN in all three ops. u8 and integers wrap.
void reduce_into(void* accumulator, const void* value, int64_t count, ElementType type,
                 ReduceOp op);

}  // namespace monograph::comm
