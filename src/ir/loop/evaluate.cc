#include "ir/loop/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/philox.h"
#include "ir/literal.h"

namespace monograph::ir {
namespace {

// A register: `real` for f32 and f64, `whole` for i64 and bool.
struct Number {
  double real = 0;
  int64_t whole = 0;
};

bool is_real(RegisterType type) {
  return type == RegisterType::kF32 || type == RegisterType::kF64;
}

double rounded(RegisterType type, double value) {
  return type == RegisterType::kF32 ? static_cast<float>(value) : value;
}

Number number(RegisterType type, double value) {
  return is_real(type) ? Number{rounded(type, value), 0} : Number{0, static_cast<int64_t>(value)};
}

double unary(ScalarOp op, double x) {
  switch (op) {
    case ScalarOp::kAbs:
      return std::fabs(x);
    case ScalarOp::kCos:
      return std::cos(x);
    case ScalarOp::kErf:
      return std::erf(x);
    case ScalarOp::kExp:
      return std::exp(x);
    case ScalarOp::kLog:
      return std::log(x);
    case ScalarOp::kNeg:
      return -x;
    case ScalarOp::kReciprocal:
      return 1 / x;
    case ScalarOp::kRsqrt:
      return 1 / std::sqrt(x);
    case ScalarOp::kSin:
      return std::sin(x);
    case ScalarOp::kSqrt:
      return std::sqrt(x);
    case ScalarOp::kTanh:
      return std::tanh(x);
    default:
      throw_internal_error("evaluate: {} of one operand", scalar_op_name(op));
  }
}

template <typename T>
T binary(ScalarOp op, T a, T b) {
  switch (op) {
    case ScalarOp::kAdd:
      return a + b;
    case ScalarOp::kDiv:
      return a / b;
    case ScalarOp::kMaximum:
      return a > b || a != a ? a : b;
    case ScalarOp::kMinimum:
      return a < b || a != a ? a : b;
    case ScalarOp::kMul:
      return a * b;
    case ScalarOp::kPow:
      return static_cast<T>(std::pow(a, b));
    case ScalarOp::kSub:
      return a - b;
    default:
      throw_internal_error("evaluate: {} of two operands", scalar_op_name(op));
  }
}

template <typename T>
bool compared(ScalarOp op, T a, T b) {
  switch (op) {
    case ScalarOp::kEq:
      return a == b;
    case ScalarOp::kNe:
      return a != b;
    case ScalarOp::kLt:
      return a < b;
    case ScalarOp::kLe:
      return a <= b;
    case ScalarOp::kGt:
      return a > b;
    case ScalarOp::kGe:
      return a >= b;
    default:
      throw_internal_error("evaluate: {} is no comparison", scalar_op_name(op));
  }
}

bool is_comparison(ScalarOp op) {
  return op == ScalarOp::kEq || op == ScalarOp::kNe || op == ScalarOp::kLt || op == ScalarOp::kLe ||
         op == ScalarOp::kGt || op == ScalarOp::kGe;
}

Number converted(RegisterType from, RegisterType to, Number x) {
  if (to == RegisterType::kBool) return {0, is_real(from) ? x.real != 0 : x.whole != 0};
  if (!is_real(to)) return {0, is_real(from) ? static_cast<int64_t>(x.real) : x.whole};
  return {rounded(to, is_real(from) ? x.real : static_cast<double>(x.whole)), 0};
}

Number apply(const Instruction& i, RegisterType operand_type, const Number* x) {
  switch (i.op) {
    case ScalarOp::kConvert:
      return converted(operand_type, i.type, x[0]);
    case ScalarOp::kWhere:
      return x[0].whole != 0 ? x[1] : x[2];
    case ScalarOp::kLogicalAnd:
      return {0, x[0].whole & x[1].whole};
    case ScalarOp::kLogicalOr:
      return {0, x[0].whole | x[1].whole};
    case ScalarOp::kLogicalNot:
      return {0, x[0].whole == 0};
    default:
      break;
  }
  if (is_comparison(i.op)) {
    return {0, is_real(operand_type) ? compared(i.op, x[0].real, x[1].real)
                                     : compared(i.op, x[0].whole, x[1].whole)};
  }
  if (i.operands.size() == 2) {
    if (!is_real(i.type)) return {0, binary(i.op, x[0].whole, x[1].whole)};
    return {rounded(i.type, binary(i.op, x[0].real, x[1].real)), 0};
  }
  if (is_real(i.type)) return {rounded(i.type, unary(i.op, x[0].real)), 0};
  return {0, i.op == ScalarOp::kAbs ? std::abs(x[0].whole) : -x[0].whole};
}

class Evaluation {
 public:
  Evaluation(const Loop& loop, std::span<void* const> buffers, std::span<const int64_t> arguments)
      : loop_(loop), buffers_(buffers), arguments_(arguments), values_(loop.instructions.size()) {}

  void run() {
    for (int id = 0; id < size(); ++id) {
      if (at(id).domain == Domain::kScalar && !is_sink(id)) values_[id] = {value(id, 0)};
      if (at(id).kind == InstructionKind::kAccumulate) {
        const Number first = at(id).reduction == Reduction::kSum ? Number{} : lowest(at(id).type);
        values_[id].assign(at(id).keeps_inner ? loop_.inner_extent : 1, first);
      }
    }
    row_.assign(loop_.row_extents.size(), 0);
    for (int64_t row = 0; row < loop_.num_rows(); ++row) {
      int64_t rest = row;
      for (size_t axis = row_.size(); axis-- > 0; rest /= loop_.row_extents[axis]) {
        row_[axis] = rest % loop_.row_extents[axis];
      }
      run_row();
    }
    for (int id = 0; id < size(); ++id) {
      if (at(id).kind == InstructionKind::kAccumulate) {
        for (size_t j = 0; j < values_[id].size(); ++j) store(id, j, values_[id][j]);
      }
      if (at(id).kind == InstructionKind::kStore && at(id).domain == Domain::kScalar) {
        store(id, 0, operand(id, 0, 0));
      }
    }
  }

 private:
  const Instruction& at(int id) const { return loop_.instructions[id]; }
  int size() const { return static_cast<int>(loop_.instructions.size()); }
  bool is_sink(int id) const {
    return at(id).kind == InstructionKind::kStore || at(id).kind == InstructionKind::kAccumulate;
  }
  static Number lowest(RegisterType type) {
    return is_real(type) ? Number{-std::numeric_limits<double>::infinity(), 0}
                         : Number{0, INT64_MIN};
  }

  Number operand(int id, int which, int64_t j) const {
    const int operand = at(id).operands[which];
    return values_[operand][at(operand).domain == Domain::kElement ? j : 0];
  }

  // Values in order, each along the whole row; then what the row stores.
  void run_row() {
    for (int id = 0; id < size(); ++id) {
      if (at(id).domain == Domain::kScalar || is_sink(id)) continue;
      if (at(id).kind == InstructionKind::kReduce) {
        values_[id] = {reduced(id)};
        continue;
      }
      values_[id].resize(at(id).domain == Domain::kElement ? loop_.inner_extent : 1);
      for (size_t j = 0; j < values_[id].size(); ++j) values_[id][j] = value(id, j);
    }
    for (int id = 0; id < size(); ++id) {
      if (at(id).domain == Domain::kScalar || !is_sink(id)) continue;
      const int64_t columns = at(id).domain == Domain::kElement ? loop_.inner_extent : 1;
      for (int64_t j = 0; j < columns; ++j) {
        if (at(id).kind == InstructionKind::kStore) {
          store(id, j, operand(id, 0, j));
        } else {
          add(at(id), &values_[id][at(id).keeps_inner ? j : 0], operand(id, 0, j));
        }
      }
    }
  }

  static void add(const Instruction& i, Number* total, Number x) {
    if (i.reduction == Reduction::kSum) {
      total->real += x.real;
      total->whole += x.whole;
    } else {
      total->real = binary(ScalarOp::kMaximum, total->real, x.real);
      total->whole = std::max(total->whole, x.whole);
    }
  }

  Number reduced(int id) const {
    Number total = at(id).reduction == Reduction::kSum ? Number{} : lowest(at(id).type);
    for (int64_t j = 0; j < loop_.inner_extent; ++j) add(at(id), &total, operand(id, 0, j));
    total.real = rounded(at(id).type, total.real);
    return total;
  }

  int64_t position(const Access& access, int64_t j) const {
    int64_t position = access.offset + access.inner_stride * j;
    for (size_t axis = 0; axis < access.row_strides.size(); ++axis) {
      position += access.row_strides[axis] * row_[axis];
    }
    if (access.index >= 0) position += access.index_stride * values_[access.index][0].whole;
    return position;
  }

  // One stored element, through a literal of one element: it knows every dtype.
  Number load(int buffer, int64_t position) const {
    const DType dtype = loop_.buffers[buffer].dtype;
    Literal element(TensorType{dtype, {}});
    std::memcpy(element.data(),
                static_cast<const std::byte*>(buffers_[buffer]) + position * dtype_bytes(dtype),
                dtype_bytes(dtype));
    return is_floating(dtype) ? Number{element.get(0), 0} : Number{0, element.get_i64(0)};
  }

  void store(int id, int64_t j, Number x) const {
    const Access& access = at(id).access;
    const DType dtype = loop_.buffers[access.buffer].dtype;
    Literal element(TensorType{dtype, {}});
    if (dtype == DType::kI64) {
      element.as<int64_t>()[0] = x.whole;
    } else {
      element.set(0, is_floating(dtype) ? x.real : static_cast<double>(x.whole));
    }
    std::memcpy(
        static_cast<std::byte*>(buffers_[access.buffer]) + position(access, j) * dtype_bytes(dtype),
        element.data(), dtype_bytes(dtype));
  }

  Number value(int id, int64_t j) const {
    const Instruction& i = at(id);
    switch (i.kind) {
      case InstructionKind::kConstant:
        return number(i.type, i.value);
      case InstructionKind::kLoad:
        return load(i.access.buffer, position(i.access, j));
      case InstructionKind::kIndex:
        return {0, position(i.access, j)};
      case InstructionKind::kArgument:
        return {0, arguments_[i.argument]};
      case InstructionKind::kPhilox:
        return {
            philox_uniform(operand(id, 0, 0).whole, operand(id, 1, 0).whole,
                           static_cast<uint32_t>(operand(id, 2, 0).whole), position(i.access, j)),
            0};
      case InstructionKind::kSegmentSum:
        return segment_sum(id, j);
      case InstructionKind::kApply: {
        Number x[3];
        for (size_t o = 0; o < i.operands.size(); ++o) x[o] = operand(id, static_cast<int>(o), j);
        return apply(i, at(i.operands[0]).type, x);
      }
      default:
        throw_internal_error("evaluate: instruction %{} has no value", id);
    }
  }

  Number segment_sum(int id, int64_t j) const {
    const Instruction& i = at(id);
    Access values = i.access;
    values.index = -1;
    Number total;
    for (int64_t s = operand(id, 0, 0).whole; s < operand(id, 1, 0).whole; ++s) {
      const int64_t place = load(i.order_buffer, s).whole * i.access.index_stride;
      const Number x = load(i.access.buffer, position(values, j) + place);
      total.real += x.real;
      total.whole += x.whole;
    }
    total.real = rounded(i.type, total.real);
    return total;
  }

  const Loop& loop_;
  std::span<void* const> buffers_;
  std::span<const int64_t> arguments_;
  std::vector<std::vector<Number>> values_;  // one for scalar and row values
  std::vector<int64_t> row_;
};

}  // namespace

void evaluate(const Loop& loop, std::span<void* const> buffers,
              std::span<const int64_t> arguments) {
  verify(loop);
  check(buffers.size() == loop.buffers.size(), "evaluate: {} buffers for a loop of {}",
        buffers.size(), loop.buffers.size());
  check(static_cast<int>(arguments.size()) == loop.num_scalars(),
        "evaluate: {} scalars for a loop of {}", arguments.size(), loop.num_scalars());
  Evaluation(loop, buffers, arguments).run();
}

}  // namespace monograph::ir
