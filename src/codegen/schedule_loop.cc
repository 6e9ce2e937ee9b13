#include "codegen/schedule_loop.h"

#include <algorithm>

#include "base/error.h"
#include "codegen/choose_kept.h"
#include "codegen/thread_map.h"

namespace monograph::codegen {
namespace {

using ir::Domain;
using ir::Instruction;
using ir::Loop;
using ir::RegisterType;
using Kind = ir::InstructionKind;

constexpr int64_t kFlatBlock = 16384;  // elements of a block of a flat loop
constexpr int64_t kAccumulateBlocks = 16;
constexpr int64_t kRowBlocks = 64;
constexpr int64_t kRowsPerPartial = 32;  // fewer rows would write more partials than they read
constexpr int64_t kColumnBlock = 256;
// GPUs.
constexpr int64_t kOneBlock = 4096;        // elements: adding up partial results takes a launch
constexpr int64_t kFewRows = 128;          // a thread goes through them all
constexpr int64_t kFillingColumns = 4096;  // a multiprocessor

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

void choose_cpu_split(Loop& loop) {
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

// On a GPU the threads decide; the Loop says what the sums depend on: over how many blocks.
void choose_gpu_split(Loop& loop, const ir::DeviceSpec& device) {
  bool sums = false, sums_columns = false, needs_rows = false;
  for (const Instruction& i : loop.instructions) {
    sums = sums || i.kind == Kind::kAccumulate;
    sums_columns = sums_columns || i.keeps_inner;
    needs_rows = needs_rows || i.kind == Kind::kReduce || i.kind == Kind::kSegmentSum ||
                 (is_sink(i) && i.domain == Domain::kRow);
  }
  const int64_t elements = loop.num_rows() * loop.inner_extent;
  if (!sums || elements <= kOneBlock) return;
  // With few rows, or columns enough to fill the device, no block shares its columns.
  const bool by_columns = loop.num_rows() <= kFewRows ||
                          loop.inner_extent >= device.num_multiprocessors * kFillingColumns;
  if (!needs_rows && (!sums_columns || by_columns)) {
    loop.split = Loop::Split::kInner;
    loop.num_blocks = 2;  // of several
  }
  loop.num_blocks = std::max<int64_t>(1, map_threads(loop, device).num_blocks);
}

void add_partials(Loop& loop) {
  int64_t total = 0;
  RegisterType type = RegisterType::kF32;
  for (const Instruction& i : loop.instructions) {
    if (i.kind != Kind::kAccumulate) continue;
    const bool direct = is_direct(loop, i);
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

void schedule_loop(Loop& loop, const ir::DeviceSpec& device, const Loop* like) {
  choose_sweeps(loop);
  if (like != nullptr && like->instructions.size() == loop.instructions.size()) {
    loop.split = like->split;
    loop.num_blocks = like->num_blocks;
    loop.num_sweeps = like->num_sweeps;
    for (size_t i = 0; i < loop.instructions.size(); ++i) {
      loop.instructions[i].keep = like->instructions[i].keep;
      loop.instructions[i].sweep = like->instructions[i].sweep;
    }
  } else if (device.is_cuda()) {
    keep_row_on_chip(loop, device);
    choose_gpu_split(loop, device);
  } else {
    keep_costly_values(loop);
    choose_cpu_split(loop);
  }
  add_partials(loop);
}

}  // namespace monograph::codegen
