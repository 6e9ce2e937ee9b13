#include "frontend/trace/promotion.h"

#include <algorithm>
#include <array>

namespace monograph::trace {
namespace {

using ir::DType;
using Found = std::optional<DType>;

// Whether operands of dtype `weak` count beside stronger ones of dtype `strong`.
bool counts(DType strong, DType weak) {
  if (ir::is_floating(strong)) return false;
  return strong == DType::kBool || ir::is_floating(weak);
}

}  // namespace

Found promote(DType a, DType b) {
  if (a == b) return a;
  const auto [low, high] = std::minmax(a, b);
  if (ir::is_floating(high)) {
    const bool is_half_pair = low == DType::kBF16 && high == DType::kF16;
    return is_half_pair ? DType::kF32 : high;
  }
  if (low == DType::kU16 || high == DType::kU16) return std::nullopt;
  return high;
}

Found result_dtype(std::span<const PromotedOperand> operands) {
  Found result;
  for (const OperandRank rank :
       {OperandRank::kTensor, OperandRank::kScalar, OperandRank::kNumber}) {
    Found of_rank;
    for (const PromotedOperand& operand : operands) {
      if (operand.rank != rank) continue;
      of_rank = of_rank ? promote(*of_rank, operand.dtype) : Found(operand.dtype);
      if (!of_rank) return std::nullopt;
    }
    if (!of_rank || (result && !counts(*result, *of_rank))) continue;
    result = result ? promote(*result, *of_rank) : of_rank;
    if (!result) return std::nullopt;
  }
  return result;
}

}  // namespace monograph::trace
