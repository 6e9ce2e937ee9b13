#include "codegen/value_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace monograph::codegen {
namespace {

using ir::Domain;
using ir::DType;
using ir::InstructionKind;
using ir::RegisterType;
using ir::ScalarOp;
__extension__ typedef __int128 Wide;

bool is_comparison(ScalarOp op) {
  return op == ScalarOp::kEq || op == ScalarOp::kNe || op == ScalarOp::kLt || op == ScalarOp::kLe ||
         op == ScalarOp::kGt || op == ScalarOp::kGe;
}

int64_t saturated(Wide value) {
  return static_cast<int64_t>(std::clamp<Wide>(value, INT64_MIN, INT64_MAX));
}

}  // namespace

std::string_view c_type_name(CType type) {
  constexpr std::array<std::string_view, 5> kNames = {"float", "double", "int", "long", "bool"};
  return kNames[static_cast<size_t>(type)];
}

std::string_view storage_type_name(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return "unsigned char";
    case DType::kU16:
      return "unsigned short";
    case DType::kI32:
      return "int";
    case DType::kI64:
      return "long";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "_Float16";
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
  }
  throw_internal_error("storage_type_name: dtype {}", static_cast<int>(dtype));
}

ValueTypes::ValueTypes(const ir::Loop& loop)
    : loop_(loop), is_narrowed_(loop.instructions.size(), false) {
  for (const ir::Instruction& instruction : loop.instructions) {
    const Range range = range_of(instruction);
    types_.push_back(type_of(instruction, range));
    ranges_.push_back(range);
  }
  for (int id = 0; id < static_cast<int>(loop.instructions.size()); ++id) {
    const ir::Instruction& instruction = loop.instructions[id];
    if (instruction.kind != InstructionKind::kApply || !is_comparison(instruction.op)) continue;
    if (operation_type(id) != CType::kInt) continue;
    for (const int operand : instruction.operands) {
      if (!fits_int(operand)) is_narrowed_[operand] = true;
    }
  }
}

CType ValueTypes::operation_type(int id) const {
  const ir::Instruction& instruction = loop_.instructions[id];
  const bool is_where = instruction.op == ScalarOp::kWhere;
  const int first = instruction.operands[is_where ? 1 : 0];
  if (!is_comparison(instruction.op) || loop_.instructions[first].type != RegisterType::kI64) {
    return instruction.op == ScalarOp::kConvert || instruction.type == RegisterType::kBool
               ? types_[first]
               : types_[id];
  }
  const auto is_inner = [&](int operand) {
    return ranges_[operand].low > INT32_MIN && ranges_[operand].high < INT32_MAX;
  };
  const auto can_narrow = [&](int operand, int other) {
    return fits_int(operand) ||
           (loop_.instructions[operand].domain != Domain::kElement && is_inner(other));
  };
  const int second = instruction.operands[1];
  const bool as_int = instruction.domain == Domain::kElement && can_narrow(first, second) &&
                      can_narrow(second, first);
  return as_int ? CType::kInt : CType::kLong;
}

ValueTypes::Range ValueTypes::index_range(const ir::Access& access) const {
  Wide low = access.offset, high = access.offset;
  const auto add = [&](Wide a, Wide b) {
    low += std::min(a, b);
    high += std::max(a, b);
  };
  for (size_t d = 0; d < access.row_strides.size(); ++d) {
    add(0, Wide{access.row_strides[d]} * (loop_.row_extents[d] - 1));
  }
  add(0, Wide{access.inner_stride} * (loop_.inner_extent - 1));
  if (access.index >= 0 && access.index_stride != 0) {
    const Range& index = ranges_[access.index];
    add(Wide{access.index_stride} * index.low, Wide{access.index_stride} * index.high);
  }
  return {saturated(low), saturated(high)};
}

ValueTypes::Range ValueTypes::apply_range(const ir::Instruction& i) const {
  const auto range = [&](int operand) { return ranges_[i.operands[operand]]; };
  const RegisterType from = loop_.instructions[i.operands[0]].type;
  switch (i.op) {
    case ScalarOp::kAdd:
      return {saturated(Wide{range(0).low} + range(1).low),
              saturated(Wide{range(0).high} + range(1).high)};
    case ScalarOp::kSub:
      return {saturated(Wide{range(0).low} - range(1).high),
              saturated(Wide{range(0).high} - range(1).low)};
    case ScalarOp::kMul: {
      const Wide a = range(0).low, b = range(0).high, c = range(1).low, d = range(1).high;
      const auto [low, high] = std::minmax({a * c, a * d, b * c, b * d});
      return {saturated(low), saturated(high)};
    }
    case ScalarOp::kNeg:
      return {saturated(-Wide{range(0).high}), saturated(-Wide{range(0).low})};
    case ScalarOp::kMaximum:
      return {std::max(range(0).low, range(1).low), std::max(range(0).high, range(1).high)};
    case ScalarOp::kMinimum:
      return {std::min(range(0).low, range(1).low), std::min(range(0).high, range(1).high)};
    case ScalarOp::kWhere:
      return {std::min(range(1).low, range(2).low), std::max(range(1).high, range(2).high)};
    case ScalarOp::kConvert:
      if (from == RegisterType::kI64) return range(0);
      if (from == RegisterType::kBool) return {0, 1};
      return {};
    default:
      return {};
  }
}

ValueTypes::Range ValueTypes::range_of(const ir::Instruction& i) const {
  if (i.type != RegisterType::kI64) return {};
  switch (i.kind) {
    case InstructionKind::kConstant: {
      const bool is_small = std::fabs(i.value) <= 0x1p53;
      if (!is_small) return {};
      return {static_cast<int64_t>(i.value), static_cast<int64_t>(i.value)};
    }
    case InstructionKind::kIndex:
      return index_range(i.access);
    case InstructionKind::kApply:
      return apply_range(i);
    case InstructionKind::kLoad:
      switch (loop_.buffers[i.access.buffer].dtype) {
        case DType::kU8:
          return {0, UINT8_MAX};
        case DType::kU16:
          return {0, UINT16_MAX};
        case DType::kI32:
          return {INT32_MIN, INT32_MAX};
        default:
          return {};
      }
    default:
      return {};
  }
}

CType ValueTypes::type_of(const ir::Instruction& i, const Range& range) const {
  switch (i.type) {
    case RegisterType::kF32:
      return CType::kFloat;
    case RegisterType::kF64:
      return CType::kDouble;
    case RegisterType::kBool:
      return CType::kBool;
    case RegisterType::kI64:
      break;
  }
  if (i.domain != Domain::kElement || !range.fits_int()) return CType::kLong;
  // An index is computed as first + position * stride; the product must be an int as well.
  if (i.kind == InstructionKind::kIndex && range.high - range.low > INT32_MAX) return CType::kLong;
  // An int sum of longs would be right, but only if each long is an int too.
  for (const int operand : i.operands) {
    const bool is_long = loop_.instructions[operand].type == RegisterType::kI64;
    if (is_long && !ranges_[operand].fits_int()) return CType::kLong;
  }
  return CType::kInt;
}

std::string constant_text(double value, CType type) {
  switch (type) {
    case CType::kBool:
      return value != 0 ? "true" : "false";
    case CType::kInt:
      return fmt::format("{}", static_cast<int64_t>(value));
    case CType::kLong: {
      const auto whole = static_cast<int64_t>(value);
      return whole == INT64_MIN ? "(-9223372036854775807L - 1)" : fmt::format("{}L", whole);
    }
    case CType::kFloat:
    case CType::kDouble:
      break;
  }
  const char* const suffix = type == CType::kFloat ? "f" : "";
  if (std::isnan(value)) return fmt::format("__builtin_nan{}(\"\")", suffix);
  const double stored = type == CType::kFloat ? static_cast<float>(value) : value;
  if (std::isinf(stored)) return fmt::format("{}__builtin_inf{}()", stored < 0 ? "-" : "", suffix);
  std::string text = type == CType::kFloat ? fmt::format("{}", static_cast<float>(value))
                                           : fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + suffix;
}

std::string load_text(DType dtype, const std::string& element) {
  switch (dtype) {
    case DType::kBool:
      return fmt::format("{} != 0", element);
    case DType::kBF16:
      return fmt::format("from_bf16({})", element);
    case DType::kF16:
      return fmt::format("(float){}", element);
    default:
      return element;
  }
}

std::string store_text(DType dtype, const std::string& value) {
  switch (dtype) {
    case DType::kBF16:
      return fmt::format("to_bf16({})", value);
    case DType::kF16:
    case DType::kBool:
    case DType::kU8:
    case DType::kU16:
    case DType::kI32:
      return fmt::format("({})({})", storage_type_name(dtype), value);
    default:
      return value;
  }
}

namespace {

std::string convert_text(CType from, CType to, const std::string& x) {
  if (from == to) return x;
  if (to == CType::kBool) return fmt::format("{} != 0", x);
  return fmt::format("({}){}", c_type_name(to), x);
}

std::string_view infix_sign(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd:
      return "+";
    case ScalarOp::kDiv:
      return "/";
    case ScalarOp::kEq:
      return "==";
    case ScalarOp::kGe:
      return ">=";
    case ScalarOp::kGt:
      return ">";
    case ScalarOp::kLe:
      return "<=";
    case ScalarOp::kLogicalAnd:
      return "&";
    case ScalarOp::kLogicalOr:
      return "|";
    case ScalarOp::kLt:
      return "<";
    case ScalarOp::kMul:
      return "*";
    case ScalarOp::kNe:
      return "!=";
    case ScalarOp::kSub:
      return "-";
    default:
      return "";
  }
}

// x^2 and the like need no call.
std::string pow_text(CType type, const std::string& x, const std::string& y) {
  if (y == constant_text(2, type)) return fmt::format("{0} * {0}", x);
  if (y == constant_text(3, type)) return fmt::format("{0} * {0} * {0}", x);
  if (y == constant_text(1, type)) return x;
  return fmt::format("pow_of({}, {})", x, y);
}

}  // namespace

std::string apply_text(const ir::Instruction& instruction, CType operation, CType result,
                       const std::vector<std::string>& operands) {
  const std::string& x = operands[0];
  const std::string one = constant_text(1, operation);
  switch (instruction.op) {
    case ScalarOp::kConvert:
      return convert_text(operation, result, x);
    case ScalarOp::kLogicalNot:
      return fmt::format("!{}", x);
    case ScalarOp::kNeg:
      return fmt::format("-{}", x);
    case ScalarOp::kPow:
      return pow_text(operation, x, operands[1]);
    case ScalarOp::kReciprocal:
      return fmt::format("{} / {}", one, x);
    case ScalarOp::kRsqrt:
      return fmt::format("{} / sqrt_of({})", one, x);
    case ScalarOp::kWhere:
      return fmt::format("{} ? {} : {}", x, operands[1], operands[2]);
    case ScalarOp::kMaximum:
      return fmt::format("max_of<{}>({}, {})", c_type_name(operation), x, operands[1]);
    case ScalarOp::kMinimum:
      return fmt::format("min_of<{}>({}, {})", c_type_name(operation), x, operands[1]);
    default:
      break;
  }
  const std::string_view sign = infix_sign(instruction.op);
  if (!sign.empty()) return fmt::format("{} {} {}", x, sign, operands[1]);
  return fmt::format("{}_of({})", ir::scalar_op_name(instruction.op), x);  // of the prelude
}

}  // namespace monograph::codegen
