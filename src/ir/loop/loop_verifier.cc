#include <algorithm>

#include "base/error.h"
#include "ir/loop/loop.h"

namespace monograph::ir {
namespace {

using Kind = InstructionKind;

bool is_sink(const Instruction& instruction) {
  return instruction.kind == Kind::kStore || instruction.kind == Kind::kAccumulate;
}

int num_operands(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAbs:
    case ScalarOp::kConvert:
    case ScalarOp::kCos:
    case ScalarOp::kErf:
    case ScalarOp::kExp:
    case ScalarOp::kLog:
    case ScalarOp::kLogicalNot:
    case ScalarOp::kNeg:
    case ScalarOp::kReciprocal:
    case ScalarOp::kRsqrt:
    case ScalarOp::kSin:
    case ScalarOp::kSqrt:
    case ScalarOp::kTanh:
      return 1;
    case ScalarOp::kWhere:
      return 3;
    default:
      return 2;
  }
}

bool is_comparison(ScalarOp op) {
  return op == ScalarOp::kEq || op == ScalarOp::kNe || op == ScalarOp::kLt || op == ScalarOp::kLe ||
         op == ScalarOp::kGt || op == ScalarOp::kGe;
}

bool is_logical(ScalarOp op) {
  return op == ScalarOp::kLogicalAnd || op == ScalarOp::kLogicalOr || op == ScalarOp::kLogicalNot;
}

bool is_float_only(ScalarOp op) {
  return is_transcendental(op) || op == ScalarOp::kReciprocal || op == ScalarOp::kRsqrt ||
         op == ScalarOp::kSqrt;
}

class Verifier {
 public:
  explicit Verifier(const Loop& loop) : loop_(loop), ready_(loop.instructions.size(), 0) {}

  void run() {
    check_space();
    int num_accumulates = 0;
    for (at_ = 0; at_ < static_cast<int>(loop_.instructions.size()); ++at_) {
      const Instruction& i = loop_.instructions[at_];
      check_operands(i);
      check_access(i);
      check_kind(i);
      check_types(i);
      check_sweep(i);
      if (i.kind == Kind::kAccumulate) check_partials(i, num_accumulates++);
    }
  }

 private:
  template <typename... Args>
  void require(bool holds, fmt::format_string<Args...> format, Args&&... args) const {
    if (holds) return;
    throw_internal_error("loop instruction %{}: {}\nin\n{}", at_,
                         fmt::format(format, std::forward<Args>(args)...), loop_.str());
  }

  void check_space() const {
    check(loop_.inner_extent >= 1 && loop_.num_blocks >= 1 && loop_.num_sweeps >= 1 &&
              std::all_of(loop_.row_extents.begin(), loop_.row_extents.end(),
                          [](int64_t extent) { return extent >= 1; }),
          "loop extents, blocks and sweeps must be at least 1, in\n{}", loop_.str());
    check(loop_.partials_buffer < static_cast<int>(loop_.buffers.size()),
          "loop partials are in buffer b{} of {}", loop_.partials_buffer, loop_.buffers.size());
  }

  void check_operands(const Instruction& i) const {
    for (const int operand : i.operands) {
      require(operand >= 0 && operand < at_, "operand %{} is not an earlier instruction", operand);
      const Instruction& o = loop_.instructions[operand];
      require(!is_sink(o), "operand %{} has no value", operand);
      require(i.kind == Kind::kReduce || o.domain <= i.domain,
              "operand %{} has a finer domain than the result", operand);
    }
    size_t expected = 0;
    switch (i.kind) {
      case Kind::kConstant:
      case Kind::kLoad:
      case Kind::kIndex:
      case Kind::kArgument:
        break;
      case Kind::kPhilox:
        expected = 3;
        break;
      case Kind::kSegmentSum:
        expected = 2;
        break;
      case Kind::kApply:
        expected = num_operands(i.op);
        break;
      case Kind::kReduce:
      case Kind::kStore:
      case Kind::kAccumulate:
        expected = 1;
        break;
    }
    require(i.operands.size() == expected, "{} operands, expected {}", i.operands.size(), expected);
  }

  bool has_access(const Instruction& i) const {
    return i.kind == Kind::kLoad || i.kind == Kind::kIndex || i.kind == Kind::kPhilox ||
           i.kind == Kind::kSegmentSum || is_sink(i);
  }

  void check_access(const Instruction& i) const {
    if (!has_access(i)) return;
    const Access& a = i.access;
    if (i.kind != Kind::kIndex && i.kind != Kind::kPhilox) {
      require(a.buffer >= 0 && a.buffer < static_cast<int>(loop_.buffers.size()),
              "buffer b{} of {}", a.buffer, loop_.buffers.size());
      const bool is_input = loop_.buffers[a.buffer].use == LoopBuffer::Use::kInput;
      require(is_input != is_sink(i), "b{} is {}", a.buffer,
              is_input ? "an input: it cannot be stored to" : "not an input: it cannot be loaded");
    }
    require(a.row_strides.size() <= loop_.row_extents.size(), "{} row strides for {} row extents",
            a.row_strides.size(), loop_.row_extents.size());
    const bool has_rows = std::any_of(a.row_strides.begin(), a.row_strides.end(),
                                      [](int64_t stride) { return stride != 0; });
    require(!has_rows || (i.domain != Domain::kScalar && i.kind != Kind::kAccumulate),
            "row strides where there is no row");
    require(a.inner_stride == 0 || i.domain == Domain::kElement,
            "an inner stride where there is no inner index");
    if (a.index < 0 || i.kind == Kind::kSegmentSum) return;
    require(a.index < at_ && loop_.instructions[a.index].type == RegisterType::kI64 &&
                loop_.instructions[a.index].domain != Domain::kElement,
            "index %{} is not an earlier i64 of scalar or row domain", a.index);
    require(loop_.instructions[a.index].domain <= i.domain, "index %{} has a finer domain",
            a.index);
  }

  void check_kind(const Instruction& i) const {
    const bool spans_blocks = loop_.split == Loop::Split::kInner && loop_.num_blocks > 1;
    if (i.kind == Kind::kReduce) {
      require(i.domain == Domain::kRow, "a reduction has row domain");
      require(!spans_blocks, "a row reduction in a loop split over the inner axis");
    }
    if (is_sink(i) && i.domain == Domain::kRow) {
      require(!spans_blocks,
              "a row is stored or accumulated by each of the blocks of the inner axis");
    }
    if (i.kind == Kind::kAccumulate) {
      require(i.domain != Domain::kScalar, "a scalar is accumulated");
      require(!i.keeps_inner || i.domain == Domain::kElement, "keeps_inner outside element domain");
      require(i.keeps_inner || i.access.inner_stride == 0,
              "an inner stride where the inner axis is accumulated away");
    }
    if (i.kind == Kind::kSegmentSum) {
      require(i.domain == Domain::kElement, "a segment sum has element domain");
      for (const int operand : i.operands) {
        require(loop_.instructions[operand].domain != Domain::kElement &&
                    loop_.instructions[operand].type == RegisterType::kI64,
                "bound %{} is not an i64 of scalar or row domain", operand);
      }
      require(i.order_buffer >= 0 && i.order_buffer < static_cast<int>(loop_.buffers.size()) &&
                  loop_.buffers[i.order_buffer].dtype == DType::kI32,
              "order b{} is not an i32 buffer", i.order_buffer);
    }
    if (i.kind == Kind::kArgument) {
      require(i.argument >= 0 && i.type == RegisterType::kI64 && i.domain == Domain::kScalar,
              "an argument of a launch is an i64 scalar");
    }
    if (i.kind == Kind::kPhilox) {
      for (const int operand : i.operands) {
        require(loop_.instructions[operand].type == RegisterType::kI64 &&
                    loop_.instructions[operand].domain == Domain::kScalar,
                "seed, step and stream are i64 scalars");
      }
    }
    require(!i.keep || (i.domain == Domain::kElement && !is_sink(i)), "keep of no element value");
  }

  RegisterType type_of(const Instruction& i, int operand) const {
    return loop_.instructions[i.operands[operand]].type;
  }

  void check_types(const Instruction& i) const {
    if (i.kind == Kind::kLoad || i.kind == Kind::kSegmentSum) {
      require(i.type == register_type(loop_.buffers[i.access.buffer].dtype), "type is not b{}'s",
              i.access.buffer);
    } else if (i.kind == Kind::kReduce || is_sink(i)) {
      require(i.type == type_of(i, 0), "type is not its operand's");
    } else if (i.kind == Kind::kIndex) {
      require(i.type == RegisterType::kI64, "an index is an i64");
    } else if (i.kind == Kind::kPhilox) {
      require(i.type == RegisterType::kF32, "a random number is an f32");
    }
    if (is_sink(i)) {
      require(i.type == register_type(loop_.buffers[i.access.buffer].dtype),
              "stored into b{} of another type: convert it first", i.access.buffer);
    }
    if (i.kind == Kind::kReduce || i.kind == Kind::kAccumulate) {
      require(i.type != RegisterType::kBool, "a reduction of booleans");
    }
    if (i.kind == Kind::kApply) check_apply_types(i);
  }

  void check_apply_types(const Instruction& i) const {
    const int first = i.op == ScalarOp::kWhere ? 1 : 0;
    for (int o = first; o < static_cast<int>(i.operands.size()); ++o) {
      require(type_of(i, o) == type_of(i, first), "operands of different types");
    }
    if (i.op == ScalarOp::kConvert) return;
    const bool gives_bool = is_comparison(i.op) || is_logical(i.op);
    require(i.type == (gives_bool ? RegisterType::kBool : type_of(i, first)), "wrong result type");
    const bool needs_bool = is_logical(i.op) || i.op == ScalarOp::kWhere;
    require(!needs_bool || type_of(i, 0) == RegisterType::kBool, "operand 0 is not a bool");
    require(!is_float_only(i.op) || i.type == RegisterType::kF32 || i.type == RegisterType::kF64,
            "only for f32 and f64");
  }

  // ready_[i]: the first sweep in or before which the value of i exists.
  void check_sweep(const Instruction& i) {
    int needs = 0;
    for (const int operand : i.operands) needs = std::max(needs, ready_[operand]);
    if (has_access(i) && i.access.index >= 0 && i.kind != Kind::kSegmentSum) {
      needs = std::max(needs, ready_[i.access.index]);
    }
    const bool constant = i.kind == Kind::kConstant || i.domain == Domain::kScalar;
    const bool has_sweep = !constant && (i.domain == Domain::kRow || is_sink(i) || i.keep);
    if (!has_sweep) {
      ready_[at_] = needs;
      return;
    }
    const bool inside_sweep = i.domain == Domain::kElement || i.kind == Kind::kReduce;
    const int last = inside_sweep ? loop_.num_sweeps - 1 : loop_.num_sweeps;
    require(i.sweep >= 0 && i.sweep <= last, "sweep {} is not in 0..{}", i.sweep, last);
    require(i.sweep >= needs, "sweep {}, but an operand is there from sweep {} on", i.sweep, needs);
    ready_[at_] = i.kind == Kind::kReduce ? i.sweep + 1 : i.sweep;
  }

  void check_partials(const Instruction& i, int number) const {
    const bool is_direct =
        loop_.num_blocks == 1 || (loop_.split == Loop::Split::kInner && i.keeps_inner);
    if (is_direct) return;
    require(loop_.partials_buffer >= 0, "accumulated over {} blocks without a partials buffer",
            loop_.num_blocks);
    const LoopBuffer& partials = loop_.buffers[loop_.partials_buffer];
    require(number < static_cast<int>(loop_.partial_offsets.size()) &&
                loop_.partial_offsets[number] >= 0,
            "accumulation {} has no partial offset", number);
    require(partials.dtype == DType::kF64 ? i.type == RegisterType::kF64
            : partials.dtype == DType::kI64
                ? i.type == RegisterType::kI64
                : partials.dtype == DType::kF32 && i.type == RegisterType::kF32,
            "partials b{} are {}, the accumulated value is not", loop_.partials_buffer,
            dtype_name(partials.dtype));
    const int64_t count = loop_.num_blocks * (i.keeps_inner ? loop_.inner_extent : 1);
    require(loop_.partial_offsets[number] + count <= partials.num_elements,
            "{} partial results at {} do not fit in b{} [{}]", count, loop_.partial_offsets[number],
            loop_.partials_buffer, partials.num_elements);
  }

  const Loop& loop_;
  std::vector<int> ready_;
  int at_ = 0;
};

}  // namespace

void verify(const Loop& loop) {
  Verifier(loop).run();
}

}  // namespace monograph::ir
