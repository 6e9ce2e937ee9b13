#pragma once

#include <optional>
#include <span>

#include "ir/type.h"

// The dtype in which operands of different dtypes meet. Rules and table: docs/dtypes.md; they are
// PyTorch's (torch.promote_types, torch.result_type), which is their oracle.
namespace monograph::trace {

// The least dtype that holds both; none for u16 with bool or another integer.
std::optional<ir::DType> promote(ir::DType a, ir::DType b);

// Kinds of operands, from the weakest: a number of the source text, a tensor of rank 0, any other.
// A weaker one changes the dtype only where it is of a higher kind (bool, integer, floating).
enum class OperandRank : uint8_t { kNumber, kScalar, kTensor };

struct PromotedOperand {
  ir::DType dtype = ir::DType::kF32;  // of a number: i64, or f32 when it is written with a point
  OperandRank rank = OperandRank::kTensor;
};

std::optional<ir::DType> result_dtype(std::span<const PromotedOperand> operands);

}  // namespace monograph::trace
