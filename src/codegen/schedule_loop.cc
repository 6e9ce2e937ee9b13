#include "codegen/schedule_loop.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace monograph::codegen {
namespace {

using ir::Domain;
using ir::Instruction;
using ir::Loop;
using ir::RegisterType;
using Kind = ir::InstructionKind;

constexpr int64_t kMaxKeptRow = 8192;  // elements of a row buffer
constexpr int64_t kFlatBlock = 16384;  // elements of a block of a flat loop
constexpr int64_t kAccumulateBlocks = 16;
constexpr int64_t kRowBlocks = 64;
constexpr int64_t kRowsPerPartial = 32;  // fewer rows would write more partials than they read
constexpr int64_t kColumnBlock = 256;

void choose_sweeps(Loop& loop) {
  std::vector<int> ready(loop.instructions.size(), 0);
  for (size_t at = 0; at < loop.instructions.size(); ++at) {
    Instruction& i = loop.instructions[at];
    int needs = 0;
    for (int operand : i.operands) needs = std::max(needs, ready[operand]);
    if (i.access.index >= 0) needs = std::max(needs, ready[i.access.index]);
    i.sweep = needs;
    ready[at] = i.kind == Kind::kReduce ? needs + 1 : needs;
    const bool in_sweep = is_sink(i) && (i.domain == Domain::kElement || i.kind == Kind::kReduce);
    if (in_sweep) loop.num_sweeps = std::max(loop.num_sweeps, needs + 1);
  }
}

// Element values that cost more than a load and are needed in several sweeps stay in a row
// buffer.
void choose_kept(Loop& loop) {
  std::vector<std::set<int>> needed(loop.instructions.size());
  for (int at = static_cast<int>(loop.instructions.size()) - 1; at >= 0; --at) {
    Instruction& i = loop.instructions[at];
    if (is_sink(i)) {
      needed[at] = {i.sweep};
    } else if (i.domain == Domain::kElement && !needed[at].empty()) {
      const bool costly = i.kind == Kind::kPhilox || i.kind == Kind::kSegmentSum ||
                          (i.kind == Kind::kApply && ir::is_transcendental(i.op));
      const int first = *needed[at].begin();
      if (costly && needed[at].size() > 1 && loop.inner_extent <= kMaxKeptRow) {
        i.keep = true;
        i.sweep = first;
        needed[at] = {first};
      }
    }
    for (int operand : i.operands) {
      if (loop.instructions[operand].domain != Domain::kElement) continue;
      needed[operand].insert(needed[at].begin(), needed[at].end());
    }
  }
}

void choose_split(Loop& loop) {
  bool has_reduce = false, has_accumulate = false, keeps_columns = false, row_sink = false;
  bool has_segments = false;
  for (const Instruction& i : loop.instructions) {
    has_reduce = has_reduce || i.kind == Kind::kReduce;
    has_segments = has_segments || i.kind == Kind::kSegmentSum;
    has_accumulate = has_accumulate || i.kind == Kind::kAccumulate;
    keeps_columns = keeps_columns || i.keeps_inner;
    row_sink = row_sink || (is_sink(i) && i.domain == Domain::kRow);
  }
  const int64_t rows = loop.num_rows();
  const int64_t inner = loop.inner_extent;
  const bool can_split_inner = !has_reduce && !row_sink && !has_segments;
  const bool few_rows = rows == 1 || (keeps_columns && rows < 8 * kAccumulateBlocks);
  if (can_split_inner && few_rows) {
    loop.split = Loop::Split::kInner;
    const int64_t block = keeps_columns ? kColumnBlock : kFlatBlock;
    loop.num_blocks = std::max<int64_t>(1, (inner + block - 1) / block);
    return;
  }
  loop.num_blocks = has_accumulate
                        ? std::clamp<int64_t>(rows / kRowsPerPartial, 1, kAccumulateBlocks)
                        : std::min(rows, kRowBlocks);
}

void add_partials(Loop& loop) {
  int64_t total = 0;
  RegisterType type = RegisterType::kF32;
  for (const Instruction& i : loop.instructions) {
    if (i.kind != Kind::kAccumulate) continue;
    const bool direct =
        loop.num_blocks == 1 || (loop.split == Loop::Split::kInner && i.keeps_inner);
    loop.partial_offsets.push_back(direct ? -1 : total);
    if (direct) continue;
    check(total == 0 || i.type == type, "lower: accumulations of two types in one kernel");
    type = i.type;
    total += loop.num_blocks * (i.keeps_inner ? loop.inner_extent : 1);
  }
  if (total == 0) return;
  const ir::DType dtype = type == RegisterType::kF64   ? ir::DType::kF64
                          : type == RegisterType::kI64 ? ir::DType::kI64
                                                       : ir::DType::kF32;
  loop.partials_buffer = static_cast<int>(loop.buffers.size());
  loop.buffers.push_back({dtype, ir::LoopBuffer::Use::kWorkspace, total});
}

}  // namespace

bool is_sink(const Instruction& i) {
  return i.kind == Kind::kStore || i.kind == Kind::kAccumulate || i.kind == Kind::kReduce;
}

void schedule_loop(Loop& loop) {
  choose_sweeps(loop);
  choose_kept(loop);
  choose_split(loop);
  add_partials(loop);
}

}  // namespace monograph::codegen
