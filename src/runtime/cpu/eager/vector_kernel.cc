#include "runtime/cpu/eager/vector_kernel.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/philox.h"
#include "runtime/cpu/eager/vector_functions.h"

namespace monograph::runtime {

using ir::Access;
using ir::Domain;
using ir::Instruction;
using ir::Loop;
using ir::Reduction;
using ir::RegisterType;
using Kind = ir::InstructionKind;

namespace {

constexpr int64_t kRun = 512;  // elements at a time
constexpr int64_t kSlotBytes = 8;

bool is_sink(const Instruction& i) {
  return i.kind == Kind::kStore || i.kind == Kind::kAccumulate;
}

}  // namespace

// What is done when, worked out once.
struct VectorKernel::Plan {
  struct Sweep {
    std::vector<int> rows;    // row values that come before it
    std::vector<int> values;  // element values and reductions
    std::vector<int> sinks;   // of elements
  };

  explicit Plan(const Loop& given) : loop(given), sweeps(given.num_sweeps + 1) {
    ir::verify(loop);
    const int count = static_cast<int>(loop.instructions.size());
    feeds_sink.assign(count, false);
    for (int id = 0; id < count; ++id) place(id);
    for (int s = 0; s < loop.num_sweeps; ++s) add_values(s);
    scratch_offsets.assign(count, -1);
    for (int id = 0; id < count; ++id) {
      if (at(id).domain != Domain::kElement || is_sink(at(id))) continue;
      const int64_t length = at(id).keep ? loop.inner_extent : std::min(kRun, loop.inner_extent);
      scratch_offsets[id] = scratch_bytes;
      scratch_bytes += (length * register_bytes(at(id).type) + 63) / 64 * 64;
    }
  }

  const Instruction& at(int id) const { return loop.instructions[id]; }
  int64_t length_of(int accumulation) const {
    return at(accumulation).keeps_inner ? loop.inner_extent : 1;
  }

  const Loop loop;
  std::vector<Sweep> sweeps;  // the last: what follows the last sweep
  std::vector<int> scalars, scalar_sinks, row_sinks, accumulations;
  std::vector<bool> feeds_sink;
  std::vector<int64_t> scratch_offsets;
  int64_t scratch_bytes = 0;

 private:
  void place(int id) {
    const Instruction& i = at(id);
    if (i.kind == Kind::kAccumulate) accumulations.push_back(id);
    if (is_sink(i)) feeds_sink[i.operands[0]] = true;
    if (i.domain == Domain::kScalar) {
      (is_sink(i) ? scalar_sinks : scalars).push_back(id);
    } else if (is_sink(i)) {
      i.domain == Domain::kRow ? row_sinks.push_back(id) : sweeps[i.sweep].sinks.push_back(id);
    } else if (i.domain == Domain::kRow && i.kind != Kind::kReduce) {
      sweeps[i.sweep].rows.push_back(id);
    }
  }

  // All that sweep `s` computes, in order: what its sinks, reductions and kept values need.
  void add_values(int s) {
    const int count = static_cast<int>(loop.instructions.size());
    std::vector<bool> is_needed(count, false);
    for (int id = 0; id < count; ++id) {
      const Instruction& i = at(id);
      const bool is_wanted = i.kind == Kind::kReduce ||
                             (is_sink(i) && i.domain == Domain::kElement) ||
                             (i.keep && i.domain == Domain::kElement);
      is_needed[id] = is_wanted && i.sweep == s;
    }
    for (int id = count - 1; id >= 0; --id) {
      if (!is_needed[id]) continue;
      for (int operand : at(id).operands) {
        const Instruction& o = at(operand);
        const bool is_here_already = o.keep && o.sweep < s;
        if (o.domain == Domain::kElement && !is_here_already) is_needed[operand] = true;
      }
    }
    for (int id = 0; id < count; ++id) {
      if (is_needed[id] && !is_sink(at(id))) sweeps[s].values.push_back(id);
    }
  }
};

namespace {

using Plan = VectorKernel::Plan;

// One thread's part of a launch: some blocks, one after the other.
class Frame {
 public:
  Frame(const Plan& plan, void* const* arguments)
      : plan_(plan),
        loop_(plan.loop),
        arguments_(arguments),
        slots_(loop_.instructions.size()),
        values_(loop_.instructions.size()),
        scratch_(plan.scratch_bytes + 64),
        row_(loop_.row_extents.size()) {
    const auto address = reinterpret_cast<uintptr_t>(scratch_.data());
    elements_ = scratch_.data() + (64 - address % 64) % 64;
    for (size_t id = 0; id < slots_.size(); ++id) {
      const bool is_vector = plan_.scratch_offsets[id] >= 0;
      values_[id] = {is_vector ? static_cast<void*>(elements_ + plan_.scratch_offsets[id])
                               : static_cast<void*>(slots_[id].bytes),
                     is_vector};
    }
    for (int id : plan_.scalars) compute(id, 0, 1);
  }

  // `totals`: of each accumulation, where this block adds up; in double or int64 unless the inner
  // axis is kept.
  void run_block(int64_t block, const std::vector<void*>& totals) {
    const int64_t num = loop_.num_blocks, rows = loop_.num_rows(), columns = loop_.inner_extent;
    const bool by_rows = loop_.split == Loop::Split::kRows;
    totals_ = &totals;
    first_column_ = by_rows ? 0 : block * columns / num;
    end_column_ = by_rows ? columns : (block + 1) * columns / num;
    const int64_t end = by_rows ? (block + 1) * rows / num : rows;
    for (int64_t row = by_rows ? block * rows / num : 0; row < end; ++row) {
      int64_t rest = row;
      for (size_t axis = row_.size(); axis-- > 0; rest /= loop_.row_extents[axis]) {
        row_[axis] = rest % loop_.row_extents[axis];
      }
      run_row();
    }
  }

  void store_scalars() {
    for (int id : plan_.scalar_sinks) store(id, 0, 1);
  }
  // The total of an accumulation over all blocks.
  void store_total(int id, const VectorOperand& total) {
    const Access& access = at(id).access;
    ir::DType dtype = loop_.buffers[access.buffer].dtype;
    store_elements(dtype, total, address(access, 0), access.inner_stride, plan_.length_of(id));
  }

 private:
  struct alignas(kSlotBytes) Slot {
    std::byte bytes[kSlotBytes] = {};
  };

  const Instruction& at(int id) const { return loop_.instructions[id]; }

  void run_row() {
    for (size_t s = 0; s < plan_.sweeps.size(); ++s) {
      const Plan::Sweep& sweep = plan_.sweeps[s];
      for (int id : sweep.rows) compute(id, 0, 1);
      if (sweep.values.empty() && sweep.sinks.empty()) continue;
      for (int id : sweep.values) {
        if (at(id).kind == Kind::kReduce) begin_reduction(id);
      }
      for (int64_t j = first_column_; j < end_column_; j += kRun) {
        const int64_t n = std::min(kRun, end_column_ - j);
        for (int id : sweep.values) compute(id, j, n);
        for (int id : sweep.sinks) sink(id, j, n);
      }
      for (int id : sweep.values) {
        if (at(id).kind == Kind::kReduce) end_reduction(id);
      }
    }
    for (int id : plan_.row_sinks) sink(id, 0, 1);
  }

  // Where the value of an instruction for elements from `j` on lies.
  VectorOperand value(int id, int64_t j) const {
    VectorOperand result = values_[id];
    if (result.is_vector && at(id).keep) {
      result.data = static_cast<const std::byte*>(result.data) + j * register_bytes(at(id).type);
    }
    return result;
  }
  void* target(int id, int64_t j) const { return const_cast<void*>(value(id, j).data); }

  template <typename T>
  T scalar(int id) const {
    T result;
    std::memcpy(&result, values_[id].data, sizeof result);
    return result;
  }

  int64_t position(const Access& access, int64_t j) const {
    int64_t place = access.offset + access.inner_stride * j;
    for (size_t axis = 0; axis < access.row_strides.size(); ++axis) {
      place += access.row_strides[axis] * row_[axis];
    }
    if (access.index >= 0) place += access.index_stride * scalar<int64_t>(access.index);
    return place;
  }

  void* address(const Access& access, int64_t j) const {
    return static_cast<std::byte*>(arguments_[access.buffer]) +
           position(access, j) * ir::dtype_bytes(loop_.buffers[access.buffer].dtype);
  }

  void compute(int id, int64_t j, int64_t n) {
    const Instruction& i = at(id);
    switch (i.kind) {
      case Kind::kConstant:
        return fill(id, i.value, n);
      case Kind::kLoad:
        return load(id, j, n);
      case Kind::kIndex: {
        auto* const out = static_cast<int64_t*>(target(id, j));
        const int64_t first = position(i.access, j);
        for (int64_t e = 0; e < n; ++e) out[e] = first + i.access.inner_stride * e;
        return;
      }
      case Kind::kPhilox: {
        auto* const out = static_cast<float*>(target(id, j));
        const auto seed = scalar<int64_t>(i.operands[0]), step = scalar<int64_t>(i.operands[1]);
        const auto stream = static_cast<uint32_t>(scalar<int64_t>(i.operands[2]));
        const int64_t first = position(i.access, j);
        for (int64_t e = 0; e < n; ++e) {
          out[e] = philox_uniform(seed, step, stream, first + i.access.inner_stride * e);
        }
        return;
      }
      case Kind::kArgument: {
        const auto* const given = static_cast<const int64_t*>(arguments_[loop_.buffers.size()]);
        *static_cast<int64_t*>(target(id, j)) = given[i.argument];
        return;
      }
      case Kind::kApply: {
        VectorOperand x[3];
        for (size_t o = 0; o < i.operands.size(); ++o) x[o] = value(i.operands[o], j);
        return apply(i.op, at(i.operands.back()).type, i.type, x, target(id, j), n);
      }
      case Kind::kReduce:
        return reduce(i.reduction, i.type, value(i.operands[0], j), &totals_of_[id], n);
      case Kind::kSegmentSum:
        return segment_sum(id, j, n);
      default:
        throw_internal_error("the eager path has no value %{}", id);
    }
  }

  void fill(int id, double number, int64_t n) {
    const Instruction& i = at(id);
    const VectorOperand one{&number, false};
    apply(ir::ScalarOp::kConvert, RegisterType::kF64, i.type, &one, target(id, 0), n);
  }

  // Memory that already looks like a register is used as it lies, unless a sink takes the value: it
  // might store over it first.
  void load(int id, int64_t j, int64_t n) {
    const Access& access = at(id).access;
    const ir::DType dtype = loop_.buffers[access.buffer].dtype;
    void* const source = address(access, j);
    const bool is_register =
        dtype == ir::DType::kF32 || dtype == ir::DType::kF64 || dtype == ir::DType::kI64;
    const bool is_vector = plan_.scratch_offsets[id] >= 0;
    if (is_vector && is_register && access.inner_stride == 1 && !plan_.feeds_sink[id] &&
        !at(id).keep) {
      values_[id].data = source;
      return;
    }
    load_elements(dtype, source, access.inner_stride, target(id, j), n);
  }

  void segment_sum(int id, int64_t j, int64_t n) {
    const Instruction& i = at(id);
    const ir::DType dtype = loop_.buffers[i.access.buffer].dtype;
    const int64_t bytes = ir::dtype_bytes(dtype);
    const auto* const order = static_cast<const int32_t*>(arguments_[i.order_buffer]);
    const auto* const rows = static_cast<const std::byte*>(arguments_[i.access.buffer]);
    Access values = i.access;
    values.index = -1;
    const int64_t first = position(values, j);
    alignas(64) std::byte row[kRun * kSlotBytes];
    void* const out = target(id, j);
    std::memset(out, 0, n * register_bytes(i.type));
    const auto end = scalar<int64_t>(i.operands[1]);
    for (auto s = scalar<int64_t>(i.operands[0]); s < end; ++s) {
      const int64_t place = first + i.access.index_stride * order[s];
      load_elements(dtype, rows + place * bytes, i.access.inner_stride, row, n);
      accumulate(Reduction::kSum, i.type, {row, true}, out, n);
    }
  }

  void begin_reduction(int id) {
    Total& total = totals_of_[id];
    if (at(id).type == RegisterType::kI64) {
      total.whole = at(id).reduction == Reduction::kSum ? 0 : std::numeric_limits<int64_t>::min();
    } else {
      total.real =
          at(id).reduction == Reduction::kSum ? 0 : -std::numeric_limits<double>::infinity();
    }
  }
  void end_reduction(int id) {
    const bool is_real = at(id).type != RegisterType::kI64;
    const VectorOperand total{&totals_of_[id], false};
    apply(ir::ScalarOp::kConvert, is_real ? RegisterType::kF64 : RegisterType::kI64, at(id).type,
          &total, target(id, 0), 1);
  }

  void sink(int id, int64_t j, int64_t n) {
    if (at(id).kind == Kind::kStore) return store(id, j, n);
    const Instruction& i = at(id);
    const auto which = std::find(plan_.accumulations.begin(), plan_.accumulations.end(), id);
    void* const total = (*totals_)[which - plan_.accumulations.begin()];
    if (i.keeps_inner) {
      accumulate(i.reduction, i.type, value(i.operands[0], j),
                 static_cast<std::byte*>(total) + j * register_bytes(i.type), n);
    } else {
      reduce(i.reduction, i.type, value(i.operands[0], j), total, n);
    }
  }

  void store(int id, int64_t j, int64_t n) {
    const Access& access = at(id).access;
    const int64_t stride = at(id).domain == Domain::kElement ? access.inner_stride : 0;
    store_elements(loop_.buffers[access.buffer].dtype, value(at(id).operands[0], j),
                   address(access, j), stride, n);
  }

  union Total {
    double real;
    int64_t whole;
  };

  const Plan& plan_;
  const Loop& loop_;
  void* const* const arguments_;
  std::vector<Slot> slots_;
  std::vector<VectorOperand> values_;
  std::vector<std::byte> scratch_;
  std::byte* elements_ = nullptr;
  std::vector<int64_t> row_;
  std::vector<Total> totals_of_ = std::vector<Total>(loop_.instructions.size());
  int64_t first_column_ = 0, end_column_ = 0;
  const std::vector<void*>* totals_ = nullptr;
};

// The totals of one accumulation: of each block its own, if there are several that share it.
class Accumulation {
 public:
  Accumulation(const Plan& plan, int id) : plan_(plan), id_(id), length_(plan.length_of(id)) {
    const Instruction& i = plan.at(id);
    type_ = i.keeps_inner                  ? i.type
            : i.type == RegisterType::kI64 ? RegisterType::kI64
                                           : RegisterType::kF64;
    const bool is_shared = i.keeps_inner && plan.loop.split == Loop::Split::kInner;
    num_parts_ = is_shared ? 1 : plan.loop.num_blocks;
    part_bytes_ = (length_ * register_bytes(type_) + 63) / 64 * 64;
    memory_.resize(num_parts_ * part_bytes_);
    const double first =
        i.reduction == Reduction::kSum ? 0.0 : -std::numeric_limits<double>::infinity();
    const int64_t least = i.reduction == Reduction::kSum ? 0 : std::numeric_limits<int64_t>::min();
    for (int64_t part = 0; part < num_parts_; ++part) {
      const bool is_whole = type_ == RegisterType::kI64;
      const VectorOperand value{is_whole ? static_cast<const void*>(&least) : &first, false};
      apply(ir::ScalarOp::kConvert, is_whole ? RegisterType::kI64 : RegisterType::kF64, type_,
            &value, of(part), length_);
    }
  }

  void* of(int64_t block) { return memory_.data() + (num_parts_ == 1 ? 0 : block) * part_bytes_; }

  // Adds the parts up in order and stores the sum.
  void finish(Frame& frame) {
    const Instruction& i = plan_.at(id_);
    for (int64_t part = 1; part < num_parts_; ++part) {
      accumulate(i.reduction, type_, {of(part), true}, of(0), length_);
    }
    if (type_ == i.type) return frame.store_total(id_, {of(0), true});
    float rounded = 0;
    const VectorOperand total{of(0), false};
    apply(ir::ScalarOp::kConvert, type_, i.type, &total, &rounded, 1);
    frame.store_total(id_, {&rounded, false});
  }

 private:
  const Plan& plan_;
  const int id_;
  const int64_t length_;
  RegisterType type_;
  int64_t num_parts_ = 1, part_bytes_ = 0;
  std::vector<std::byte> memory_;
};

}  // namespace

VectorKernel::VectorKernel(const Loop& loop) : plan_(std::make_unique<const Plan>(loop)) {}
VectorKernel::~VectorKernel() = default;
VectorKernel::VectorKernel(VectorKernel&&) noexcept = default;

void VectorKernel::run(void* const* arguments) const {
  std::vector<Accumulation> accumulations;
  for (int id : plan_->accumulations) accumulations.emplace_back(*plan_, id);
  const int64_t num_blocks = plan_->loop.num_blocks;
  Frame last(*plan_, arguments);  // takes its scalars before anything is stored
#pragma omp parallel if (num_blocks > 1)
  {
    Frame frame(*plan_, arguments);
    std::vector<void*> totals(accumulations.size());
#pragma omp for schedule(dynamic)
    for (int64_t block = 0; block < num_blocks; ++block) {
      for (size_t a = 0; a < totals.size(); ++a) totals[a] = accumulations[a].of(block);
      frame.run_block(block, totals);
    }
  }
  for (Accumulation& each : accumulations) each.finish(last);
  last.store_scalars();
}

}  // namespace monograph::runtime
