#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "codegen/cpu/kernel_check.h"
#include "codegen/cpu/random_loop.h"
#include "ir/loop/loop.h"
#include "ir/loop/loop_parser.h"

// Random Loops: generated code against the oracle, and the text form read back.
namespace monograph::codegen {
namespace {

using ir::Domain;
using ir::DType;
using ir::Instruction;
using ir::Loop;
using ir::LoopBuffer;
using ir::RegisterType;
using ir::ScalarOp;
using Kind = ir::InstructionKind;

constexpr int kMaxSweeps = 3;

// Values stay small (sums are squashed), and comparisons are of what is loaded: a rounding more or
// less must not change the answer.
class RandomLoop {
 public:
  explicit RandomLoop(uint64_t seed) : random_(seed) {}

  Loop make() {
    choose_space();
    add_loads();
    const int steps = pick(4, 24);
    for (int step = 0; step < steps; ++step) add_value();
    add_sinks();
    place_partials();
    return std::move(loop_);
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + pick(0, static_cast<int>(values.size()) - 1));
  }
  Instruction& at(int id) { return loop_.instructions[id]; }
  bool spans_blocks() const { return loop_.split == Loop::Split::kInner && loop_.num_blocks > 1; }

  void choose_space() {
    const int rank = pick(0, 3);
    for (int axis = 0; axis < rank; ++axis) loop_.row_extents.push_back(one_of({1, 2, 3, 5}));
    loop_.inner_extent = one_of({1, 7, 33, 130, 1000});
    if (chance(30)) loop_.split = Loop::Split::kInner;
    const int64_t limit = loop_.split == Loop::Split::kRows ? loop_.num_rows() : 4;
    loop_.num_blocks = std::min<int64_t>(limit, one_of({1, 1, 3, 4}));
    loop_.num_sweeps = 1;
  }

  int add_buffer(DType dtype, LoopBuffer::Use use) {
    loop_.buffers.push_back({dtype, use, 0});
    return static_cast<int>(loop_.buffers.size()) - 1;
  }

  int add(Instruction instruction, int ready) {
    loop_.instructions.push_back(std::move(instruction));
    ready_.push_back(ready);
    return static_cast<int>(loop_.instructions.size()) - 1;
  }

  // Row-major over all rows and columns, or with the rows in another order.
  ir::Access full_access(int buffer) {
    ir::Access access;
    access.buffer = buffer;
    access.row_strides.resize(loop_.row_extents.size());
    int64_t stride = loop_.inner_extent;
    std::vector<size_t> axes(loop_.row_extents.size());
    for (size_t axis = 0; axis < axes.size(); ++axis) axes[axis] = axes.size() - 1 - axis;
    if (chance(25)) std::shuffle(axes.begin(), axes.end(), random_);
    for (const size_t axis : axes) {
      access.row_strides[axis] = stride;
      stride *= loop_.row_extents[axis];
    }
    access.inner_stride = 1;
    if (chance(10)) {
      for (int64_t& row_stride : access.row_strides) row_stride /= loop_.inner_extent;
      access.inner_stride = loop_.num_rows();
    }
    access.offset = chance(20) ? 3 : 0;
    return access;
  }

  void add_load(DType dtype, Domain domain) {
    ir::Access access = full_access(add_buffer(dtype, LoopBuffer::Use::kInput));
    if (domain == Domain::kElement && chance(25)) {  // along columns only
      access.row_strides.clear();
      access.inner_stride = 1;
    }
    if (domain != Domain::kElement) access.inner_stride = 0;
    if (domain == Domain::kScalar) access.row_strides.clear();
    const bool is_sparse = domain == Domain::kElement && chance(15);
    for (size_t axis = 0; is_sparse && axis < access.row_strides.size(); ++axis) {
      if (chance(50)) access.row_strides[axis] = 0;
    }
    int ready = 0;
    if (domain == Domain::kElement && row_index_ >= 0 && chance(40)) {
      access.index = row_index_;
      access.index_stride = loop_.inner_extent;
    }
    if (domain == Domain::kRow) ready = pick(0, 1);
    const int id = add({.kind = Kind::kLoad,
                        .type = ir::register_type(dtype),
                        .domain = domain,
                        .access = access,
                        .sweep = domain == Domain::kRow ? ready : 0},
                       ready);
    const RegisterType type = at(id).type;
    if (type == RegisterType::kF32) reals_.push_back(id);
    if (type == RegisterType::kI64) integers_.push_back(id);
    if (type == RegisterType::kBool) conditions_.push_back(id);
    if (dtype == DType::kF32 || dtype == DType::kBF16) loaded_.push_back(id);
    if (type == RegisterType::kI64 && domain == Domain::kRow && ready == 0) row_index_ = id;
  }

  void add_loads() {
    add_load(DType::kF32, Domain::kElement);
    if (chance(50)) add_load(DType::kI64, Domain::kRow);
    if (chance(50)) add_load(DType::kF32, Domain::kRow);
    if (chance(30)) add_load(DType::kF32, Domain::kScalar);
    const int more = pick(0, 3);
    for (int l = 0; l < more; ++l) {
      add_load(one_of({DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kBool}),
               Domain::kElement);
    }
    reals_.push_back(add({.kind = Kind::kConstant, .domain = Domain::kScalar, .value = 0.75}, 0));
    integers_.push_back(add({.kind = Kind::kIndex,
                             .type = RegisterType::kI64,
                             .domain = Domain::kElement,
                             .access = full_access(-1)},
                            0));
  }

  int any(const std::vector<int>& ids) { return ids[pick(0, static_cast<int>(ids.size()) - 1)]; }

  int apply(ScalarOp op, RegisterType type, std::vector<int> operands) {
    Domain domain = Domain::kScalar;
    int ready = 0;
    for (const int operand : operands) {
      domain = std::max(domain, at(operand).domain);
      ready = std::max(ready, ready_[operand]);
    }
    if (domain == Domain::kRow && ready < kMaxSweeps && chance(20)) ++ready;
    Instruction i{.kind = Kind::kApply,
                  .type = type,
                  .domain = domain,
                  .operands = std::move(operands),
                  .op = op,
                  .sweep = domain == Domain::kRow ? ready : 0};
    if (domain == Domain::kElement && ready < kMaxSweeps && chance(15)) {
      i.keep = true;
      i.sweep = ready;
    }
    return add(std::move(i), ready);
  }

  int squashed(int id) { return apply(ScalarOp::kTanh, RegisterType::kF32, {id}); }

  void add_value() {
    const int kind = pick(0, 9);
    if (kind <= 3) {
      const ScalarOp op = one_of(
          {ScalarOp::kAdd, ScalarOp::kSub, ScalarOp::kMul, ScalarOp::kMaximum, ScalarOp::kMinimum});
      const int id = apply(op, RegisterType::kF32, {any(reals_), any(reals_)});
      reals_.push_back(chance(50) ? squashed(id) : id);
    } else if (kind == 4) {
      const ScalarOp op =
          one_of({ScalarOp::kTanh, ScalarOp::kSin, ScalarOp::kCos, ScalarOp::kErf, ScalarOp::kAbs});
      reals_.push_back(apply(op, RegisterType::kF32, {any(reals_)}));
    } else if (kind == 5) {
      reals_.push_back(apply(ScalarOp::kExp, RegisterType::kF32, {squashed(any(reals_))}));
    } else if (kind == 6) {
      add_integer();
    } else if (kind == 7) {
      const bool of_integers = chance(50);
      const std::vector<int>& ids = of_integers ? integers_ : loaded_;
      const ScalarOp op = one_of({ScalarOp::kLt, ScalarOp::kGe, ScalarOp::kEq, ScalarOp::kNe});
      conditions_.push_back(apply(op, RegisterType::kBool, {any(ids), any(ids)}));
    } else if (kind == 8 && !conditions_.empty()) {
      reals_.push_back(apply(ScalarOp::kWhere, RegisterType::kF32,
                             {any(conditions_), any(reals_), any(reals_)}));
    } else {
      add_reduction();
    }
  }

  void add_integer() {
    const ScalarOp op =
        one_of({ScalarOp::kAdd, ScalarOp::kSub, ScalarOp::kMaximum, ScalarOp::kMinimum});
    integers_.push_back(apply(op, RegisterType::kI64, {any(integers_), any(integers_)}));
  }

  void add_reduction() {
    const int operand = any(reals_);
    if (spans_blocks() || ready_[operand] >= kMaxSweeps) return;
    const int sweep = ready_[operand];
    const int id = add({.kind = Kind::kReduce,
                        .domain = Domain::kRow,
                        .operands = {operand},
                        .reduction = one_of({ir::Reduction::kSum, ir::Reduction::kMax}),
                        .sweep = sweep},
                       sweep + 1);
    reals_.push_back(squashed(id));
  }

  void add_sinks() {
    const int count = pick(1, 4);
    for (int s = 0; s < count; ++s) {
      const int kind = pick(0, 5);
      const int value = kind == 5                           ? any(integers_)
                        : kind == 4 && !conditions_.empty() ? any(conditions_)
                                                            : any(reals_);
      add_sink(value);
    }
    for (size_t id = 0; id < loop_.instructions.size(); ++id) {
      const Instruction& i = loop_.instructions[id];
      const bool in_sweep =
          i.keep || i.kind == Kind::kReduce ||
          ((i.kind == Kind::kStore || i.kind == Kind::kAccumulate) && i.domain == Domain::kElement);
      const int needed = in_sweep ? i.sweep + 1 : i.domain == Domain::kRow ? i.sweep : 0;
      loop_.num_sweeps = std::max(loop_.num_sweeps, needed);
    }
  }

  void add_sink(int value) {
    const RegisterType type = at(value).type;
    Domain domain = std::max(at(value).domain, chance(50) ? Domain::kElement : Domain::kScalar);
    if (domain == Domain::kRow && spans_blocks()) domain = Domain::kElement;
    if (domain == Domain::kElement && ready_[value] >= kMaxSweeps) return;
    const DType dtype = type == RegisterType::kI64    ? DType::kI64
                        : type == RegisterType::kBool ? DType::kBool
                                                      : one_of({DType::kF32, DType::kBF16});
    Instruction i{.kind = Kind::kStore,
                  .type = type,
                  .domain = domain,
                  .operands = {value},
                  .sweep = ready_[value]};
    i.access = full_access(add_buffer(dtype, LoopBuffer::Use::kOutput));
    if (domain != Domain::kElement) i.access.inner_stride = 0;
    if (domain == Domain::kScalar) i.access.row_strides.clear();
    if (type == RegisterType::kF32 && domain != Domain::kScalar && chance(40)) {
      i.kind = Kind::kAccumulate;
      i.reduction = one_of({ir::Reduction::kSum, ir::Reduction::kMax});
      i.keeps_inner = domain == Domain::kElement && chance(60);
      i.access.row_strides.clear();
      i.access.inner_stride = i.keeps_inner ? 1 : 0;
    }
    add(std::move(i), ready_[value]);
  }

  void place_partials() {
    int64_t total = 0;
    for (const Instruction& i : loop_.instructions) {
      if (i.kind != Kind::kAccumulate) continue;
      loop_.partial_offsets.push_back(total);
      total += loop_.num_blocks * (i.keeps_inner ? loop_.inner_extent : 1);
    }
    if (total == 0) return;
    loop_.partials_buffer = add_buffer(DType::kF32, LoopBuffer::Use::kWorkspace);
    loop_.buffers.back().num_elements = total;
  }

  std::mt19937_64 random_;
  Loop loop_;
  std::vector<int> ready_;  // by instruction: the first sweep in or before which its value exists
  std::vector<int> reals_, integers_, conditions_, loaded_;
  int row_index_ = -1;
};

}  // namespace

std::vector<Loop> random_loops(uint64_t first_seed, int count) {
  std::vector<Loop> loops;
  for (int l = 0; l < count; ++l) loops.push_back(RandomLoop(first_seed + l).make());
  return loops;
}

namespace {

TEST(RandomLoop, TextReadsBack) {
  for (const Loop& loop : random_loops(1000, 200)) {
    EXPECT_EQ(ir::parse_loop(loop.str()).str(), loop.str());
  }
}

TEST(RandomLoop, GeneratedCodeAgreesWithTheOracle) {
  const CheckOptions options{.index_extent = kRandomIndexExtent, .relative = 1e-4};
  EXPECT_EQ(difference_from_oracle(random_loops(1, 120), options), "");
}

}  // namespace
}  // namespace monograph::codegen
