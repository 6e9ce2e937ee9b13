#include "ir/loop/loop.h"

#include <algorithm>

#include <array>

namespace monograph::ir {
namespace {

struct ScalarOpFacts {
  ScalarOp op;
  std::string_view name;
  bool is_transcendental = false;
};
constexpr std::array<ScalarOpFacts, 29> kScalarOps = {{{ScalarOp::kAbs, "abs"},
                                                       {ScalarOp::kAdd, "add"},
                                                       {ScalarOp::kConvert, "convert"},
                                                       {ScalarOp::kCos, "cos", true},
                                                       {ScalarOp::kDiv, "div"},
                                                       {ScalarOp::kEq, "eq"},
                                                       {ScalarOp::kErf, "erf", true},
                                                       {ScalarOp::kExp, "exp", true},
                                                       {ScalarOp::kGe, "ge"},
                                                       {ScalarOp::kGt, "gt"},
                                                       {ScalarOp::kLe, "le"},
                                                       {ScalarOp::kLog, "log", true},
                                                       {ScalarOp::kLogicalAnd, "logical_and"},
                                                       {ScalarOp::kLogicalNot, "logical_not"},
                                                       {ScalarOp::kLogicalOr, "logical_or"},
                                                       {ScalarOp::kLt, "lt"},
                                                       {ScalarOp::kMaximum, "maximum"},
                                                       {ScalarOp::kMinimum, "minimum"},
                                                       {ScalarOp::kMul, "mul"},
                                                       {ScalarOp::kNe, "ne"},
                                                       {ScalarOp::kNeg, "neg"},
                                                       {ScalarOp::kPow, "pow", true},
                                                       {ScalarOp::kReciprocal, "reciprocal"},
                                                       {ScalarOp::kRsqrt, "rsqrt"},
                                                       {ScalarOp::kSin, "sin", true},
                                                       {ScalarOp::kSqrt, "sqrt"},
                                                       {ScalarOp::kSub, "sub"},
                                                       {ScalarOp::kTanh, "tanh", true},
                                                       {ScalarOp::kWhere, "where"}}};

constexpr bool is_in_enum_order() {
  for (size_t i = 0; i < kScalarOps.size(); ++i) {
    if (kScalarOps[i].op != static_cast<ScalarOp>(i)) return false;
  }
  return true;
}
static_assert(is_in_enum_order());

}  // namespace

std::string_view scalar_op_name(ScalarOp op) {
  return kScalarOps[static_cast<size_t>(op)].name;
}

bool find_scalar_op(std::string_view name, ScalarOp* op) {
  for (const ScalarOpFacts& facts : kScalarOps) {
    if (facts.name != name) continue;
    *op = facts.op;
    return true;
  }
  return false;
}

bool is_transcendental(ScalarOp op) {
  return kScalarOps[static_cast<size_t>(op)].is_transcendental;
}

RegisterType register_type(DType dtype) {
  if (dtype == DType::kF64) return RegisterType::kF64;
  if (is_floating(dtype)) return RegisterType::kF32;
  return is_integer(dtype) ? RegisterType::kI64 : RegisterType::kBool;
}

int64_t Loop::num_rows() const {
  int64_t count = 1;
  for (const int64_t extent : row_extents) count *= extent;
  return count;
}

int Loop::num_scalars() const {
  int count = 0;
  for (const Instruction& i : instructions) {
    if (i.kind == InstructionKind::kArgument) count = std::max(count, i.argument + 1);
  }
  return count;
}

Hash Loop::hash() const {
  return hash_of(str());
}

}  // namespace monograph::ir
