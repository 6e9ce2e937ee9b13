#include "codegen/thread_map.h"

#include <algorithm>
#include <bit>
#include <string>

#include "codegen/sweep_plan.h"

namespace monograph::codegen {
namespace {

using ir::Access;
using ir::Domain;
using ir::Instruction;
using ir::Loop;
using Kind = ir::InstructionKind;

constexpr int kAccessBytes = 16;  // the most that one load or store of a thread moves
constexpr int kBlockThreads = 256;
constexpr int kWideBlock = 512;        // for rows that one warp cannot hold
constexpr int kRowAtATime = 1024;      // one block a multiprocessor, one row after the other
constexpr int kSegmentBlock = 512;     // long segments are summed by all warps of a block
constexpr int kOtherRegisters = 28;    // addresses, row values, what is being computed
constexpr int kPhiloxRegisters = 16;   // counter, key, products, results
constexpr int kFileRegisters = 65536;  // of a multiprocessor
constexpr int kThreadsAtOnce = 2048;   // on a multiprocessor
constexpr int kMostHeld = 96;          // registers of a thread for its row
constexpr int kMaxSteps = 32;
constexpr int64_t kSharedOfReductions = 2048;  // bytes, at most
constexpr int64_t kInFlightBytes = 64;         // of a thread: loads before their first use
constexpr int64_t kSharedAtOnce = 233472;      // of a multiprocessor, all of its blocks

bool has_memory(const Instruction& i) {
  return i.kind == Kind::kLoad || i.kind == Kind::kStore || i.kind == Kind::kAccumulate ||
         i.kind == Kind::kSegmentSum;
}

bool varies_by_row(const Access& access) {
  return access.index >= 0 || std::any_of(access.row_strides.begin(), access.row_strides.end(),
                                          [](int64_t stride) { return stride != 0; });
}

int bytes_of(ir::RegisterType type) {
  return type == ir::RegisterType::kF64 || type == ir::RegisterType::kI64 ? 8 : 4;
}

int bytes_of(const Loop& loop, const Access& access) {  // of an element in memory
  return static_cast<int>(ir::dtype_bytes(loop.buffers[access.buffer].dtype));
}

// A whole number of accesses of `width` elements leads to every place that the access reaches.
bool allows_width(const Loop& loop, const Instruction& i, int width) {
  if (i.access.inner_stride != 1) return true;  // element by element
  const int bytes = bytes_of(loop, i.access);
  const int64_t wanted = std::min(width * bytes, kAccessBytes);
  if (loop.buffers[i.access.buffer].alignment % wanted != 0) return false;
  if (loop.buffers[i.access.buffer].alignment == 0 && wanted > bytes) return false;
  const auto is_whole = [&](int64_t elements) { return elements * bytes % wanted == 0; };
  if (!is_whole(i.access.offset) || !is_whole(i.access.index_stride)) return false;
  return std::all_of(i.access.row_strides.begin(), i.access.row_strides.end(), is_whole);
}

// The widest element that is read or written row by row decides; a vector along the columns only
// comes from the cache.
int choose_width(const Loop& loop, bool allows_rest) {
  int widest = 1;
  for (const Instruction& i : loop.instructions) {
    const bool counts = has_memory(i) && i.domain == Domain::kElement &&
                        i.access.inner_stride == 1 && i.kind != Kind::kAccumulate &&
                        (varies_by_row(i.access) || loop.num_rows() == 1);
    if (counts) widest = std::max(widest, bytes_of(loop, i.access));
  }
  int width = std::min(kAccessBytes / widest, 8);
  const auto is_allowed = [&] {
    if (loop.inner_extent % width != 0 && !(allows_rest && loop.inner_extent > width)) return false;
    return std::all_of(loop.instructions.begin(), loop.instructions.end(),
                       [&](const Instruction& i) {
                         return !has_memory(i) || i.kind == Kind::kAccumulate ||
                                i.domain != Domain::kElement || allows_width(loop, i, width);
                       });
  };
  while (width > 1 && !is_allowed()) width /= 2;
  return width;
}

struct Needs {              // of one column
  int64_t kept = 0;         // bytes
  int64_t accumulated = 0;  // bytes
  int64_t loaded = 0;       // bytes, in the sweep that loads most
  int64_t fixed = 0;        // bytes that are the same in all rows: the compiler may hold them
  bool has_reduce = false, has_row_sink = false, has_segments = false;
  bool sums_columns = false, sums_all = false, makes_random = false;
};

Needs needs_of(const Loop& loop) {
  Needs needs;
  for (const Instruction& i : loop.instructions) {
    if (i.keep || i.kind == Kind::kSegmentSum) needs.kept += kept_bytes(loop, i);
    const bool is_fixed = i.kind == Kind::kLoad && i.domain == Domain::kElement && !i.keep &&
                          i.access.inner_stride != 0 && !varies_by_row(i.access);
    if (is_fixed) needs.fixed += bytes_of(loop, i.access);
    // Beside the sums of a group's own row, those of its share in another's long segment.
    if (i.kind == Kind::kSegmentSum) needs.fixed += kept_bytes(loop, i);
    needs.has_reduce |= i.kind == Kind::kReduce;
    needs.has_segments |= i.kind == Kind::kSegmentSum;
    needs.makes_random |= i.kind == Kind::kPhilox;
    const bool is_sink = i.kind == Kind::kStore || i.kind == Kind::kAccumulate;
    needs.has_row_sink |= is_sink && i.domain == Domain::kRow;
    if (i.kind != Kind::kAccumulate) continue;
    (i.keeps_inner ? needs.sums_columns : needs.sums_all) = true;
    if (i.keeps_inner) needs.accumulated += bytes_of(i.type);
  }
  const SweepPlan plan(loop);
  for (int s = 0; s < loop.num_sweeps; ++s) {
    int64_t bytes = 0;
    for (const int id : plan.sweeps()[s].values) {
      const Instruction& i = loop.instructions[id];
      const bool loads = i.kind == Kind::kLoad && !i.keep && i.access.inner_stride != 0 &&
                         (varies_by_row(i.access) || loop.num_rows() == 1);
      if (loads) bytes += bytes_of(loop, i.access);
    }
    needs.loaded = std::max(needs.loaded, bytes);
  }
  return needs;
}

// What a thread may hold of its row. A multiprocessor should work on several rows at once: while
// one is reduced, others are read.
int held_registers(int threads_per_row) {
  if (threads_per_row <= 32) return 64;
  if (threads_per_row <= 64) return kMostHeld;
  return threads_per_row <= 128 ? 72 : threads_per_row <= 256 ? 48 : 24;
}

int64_t registers_for(const Needs& needs, int64_t columns) {
  return (needs.kept + needs.accumulated + needs.loaded) * columns / 4;
}

// Nothing along a row is needed before its elements are: rows do not wait for one another.
int choose_rows_in_flight(const Loop& loop, const Needs& needs, const ThreadMap& map) {
  const bool waits = needs.has_reduce || needs.has_row_sink || needs.has_segments ||
                     needs.kept > 0 || loop.num_sweeps > 1 || !map.in_registers;
  const int64_t bytes = std::max<int64_t>(1, needs.loaded * map.width * map.steps);
  return waits ? 1 : static_cast<int>(std::clamp<int64_t>(kInFlightBytes / bytes, 1, 4));
}

int64_t divided(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

void map_flat(const Loop& loop, const ir::DeviceSpec& device, const Needs& needs, ThreadMap& map) {
  map.is_flat = true;
  map.width = choose_width(loop, loop.num_rows() == 1);
  map.threads_per_row = kBlockThreads;
  map.steps = static_cast<int>(
      std::clamp<int64_t>(kInFlightBytes / std::max<int64_t>(1, needs.loaded * map.width), 1, 4));
  const int64_t accesses = divided(loop.inner_extent, map.width) * loop.num_rows();
  map.num_blocks = divided(accesses, int64_t{kBlockThreads} * map.steps);
  map.blocks_at_once = kThreadsAtOnce / kBlockThreads / 2;
  if (needs.sums_all || scalars_take_long(loop)) {
    map.num_blocks =
        std::min<int64_t>(map.num_blocks, device.num_multiprocessors * map.blocks_at_once);
  }
}

// Threads that have all of a row's accesses, or as many of them as a warp has.
int smallest_group(const Needs& needs, int64_t accesses) {
  if (accesses <= 32 || needs.has_reduce || needs.has_segments || needs.has_row_sink) {
    return static_cast<int>(std::min<uint64_t>(32, std::bit_ceil<uint64_t>(accesses)));
  }
  return static_cast<int>(std::min<int64_t>(divided(accesses, 32) * 32, kWideBlock));
}

// Groups as small as the registers of their threads allow: a warp reduces faster than a block.
void choose_group(const Loop& loop, const Needs& needs, ThreadMap& map) {
  int64_t accesses = loop.inner_extent / map.width;
  map.threads_per_row = smallest_group(needs, accesses);
  const auto is_too_much = [&] {
    const int64_t steps = divided(accesses, map.threads_per_row);
    const int64_t columns = steps * map.width;
    const int held =
        map.threads_per_row <= 32 && steps == 1 ? kMostHeld : held_registers(map.threads_per_row);
    return steps > kMaxSteps || registers_for(needs, columns) + needs.fixed * columns / 4 > held;
  };
  while (is_too_much()) {
    if (accesses > map.threads_per_row) {
      if (map.threads_per_row == kWideBlock) break;
      map.threads_per_row = std::min(std::max(32, map.threads_per_row * 2), kWideBlock);
    } else {  // more threads would have no columns: each takes fewer
      if (map.width == 1) break;
      map.width /= 2;
      accesses *= 2;
      map.threads_per_row = smallest_group(needs, accesses);
    }
  }
  map.in_registers = !is_too_much();
  map.steps = map.in_registers ? static_cast<int>(divided(accesses, map.threads_per_row)) : 0;
}

// Kept loads of whole rows that the copy engine of a GPU from Hopper on can bring: where a row and
// the next one fit a block's shared memory.
std::vector<int> loads_of_next_row(const Loop& loop, const ir::DeviceSpec& device,
                                   int64_t shared_bytes) {
  constexpr std::string_view kPrefix = "sm_";
  const std::string& name = device.architecture;
  const bool has_engine = name.starts_with(kPrefix) && std::stoi(name.substr(kPrefix.size())) >= 90;
  if (!has_engine || loop.num_rows() < 2 * device.num_multiprocessors) return {};
  std::vector<int> ids;
  for (size_t id = 0; id < loop.instructions.size(); ++id) {
    const Instruction& i = loop.instructions[id];
    if (i.kind != Kind::kLoad || !i.keep) continue;
    const int64_t row_bytes = loop.inner_extent * bytes_of(loop, i.access);
    const int width = kAccessBytes / bytes_of(loop, i.access);
    if (i.access.inner_stride != 1 || row_bytes % kAccessBytes != 0 || !varies_by_row(i.access) ||
        !allows_width(loop, i, width))
      continue;
    shared_bytes += row_bytes;
    ids.push_back(static_cast<int>(id));
  }
  return shared_bytes <= device.shared_bytes_per_block - kSharedOfReductions ? ids
                                                                             : std::vector<int>();
}

void map_rows(const Loop& loop, const ir::DeviceSpec& device, const Needs& needs, ThreadMap& map) {
  map.width = choose_width(loop, false);
  choose_group(loop, needs, map);
  const int block = needs.has_segments ? kSegmentBlock : kBlockThreads;
  const int64_t rows = loop.num_rows();
  map.rows_at_once = static_cast<int>(std::clamp<int64_t>(
      block / map.threads_per_row, 1, needs.has_segments ? block : std::bit_ceil<uint64_t>(rows)));
  if (!map.in_registers) {
    map.rows_at_once = 1;
    map.shared_bytes = (needs.kept + needs.accumulated) * loop.inner_extent;
    map.loads_of_next_row = loads_of_next_row(loop, device, map.shared_bytes);
    for (const int id : map.loads_of_next_row) {
      map.shared_bytes += kept_bytes(loop, loop.instructions[id]) * loop.inner_extent;
      map.threads_per_row = kRowAtATime;
    }
  }
  const int64_t columns = map.in_registers ? int64_t{map.steps} * map.width : 2 * map.width;
  map.rows_in_flight = choose_rows_in_flight(loop, needs, map);
  const int64_t in_flight = needs.loaded * columns * (map.rows_in_flight - 1) / 4;
  const int64_t others = kOtherRegisters + (needs.makes_random ? kPhiloxRegisters : 0);
  const int64_t registers = std::min<int64_t>(
      others + registers_for(needs, columns) + needs.fixed * columns / 8 + in_flight + map.width,
      255);
  map.blocks_at_once = static_cast<int>(
      std::clamp<int64_t>(kFileRegisters / ((registers + 7) / 8 * 8 * map.threads()), 1,
                          std::min(32, kThreadsAtOnce / map.threads())));
  if (map.shared_bytes > 0) {
    const int64_t fit = kSharedAtOnce / (map.shared_bytes + 1024);
    map.blocks_at_once = static_cast<int>(std::clamp<int64_t>(fit, 1, map.blocks_at_once));
  }
  const int64_t filling = int64_t{device.num_multiprocessors} * map.blocks_at_once;
  map.rows_of_block = map.rows_at_once;
  if (needs.has_segments) {  // few rows with long segments: more warps a row
    map.rows_of_block = static_cast<int>(
        std::clamp<int64_t>(rows / (2 * device.num_multiprocessors), 1, map.rows_at_once));
  }
  map.num_blocks = divided(rows, map.rows_of_block);
  const bool stays = needs.sums_columns || needs.sums_all || scalars_take_long(loop);
  if (stays) map.num_blocks = std::min(map.num_blocks, filling);
}

// All rows in one block, and as many blocks as the columns need.
void map_columns(const Loop& loop, const Needs& needs, ThreadMap& map) {
  map.tiles_columns = true;
  map.width = choose_width(loop, false);
  const int64_t accesses = loop.inner_extent / map.width;
  map.threads_per_row = static_cast<int>(std::min<uint64_t>(32, std::bit_ceil<uint64_t>(accesses)));
  const int64_t rows = std::min<int64_t>(loop.num_rows(), kBlockThreads / map.threads_per_row);
  // Groups share the rows where there are few columns to go round.
  map.rows_at_once = static_cast<int>(std::bit_floor<uint64_t>(rows));
  while (accesses > int64_t{kBlockThreads} * 512 && map.rows_at_once > 1) {
    map.threads_per_row *= 2;
    map.rows_at_once /= 2;
  }
  map.num_blocks = divided(accesses, map.threads_per_row);
  map.rows_in_flight = choose_rows_in_flight(loop, needs, map);
}

}  // namespace

int kept_bytes(const Loop& loop, const Instruction& i) {
  return i.kind == Kind::kLoad ? bytes_of(loop, i.access) : bytes_of(i.type);
}

bool fits_on_chip(const Loop& loop, int64_t bytes, const ir::DeviceSpec& device) {
  const int64_t all = bytes + needs_of(loop).accumulated;
  return loop.inner_extent * all <= device.shared_bytes_per_block - kSharedOfReductions;
}

bool scalars_take_long(const Loop& loop) {
  return std::any_of(loop.instructions.begin(), loop.instructions.end(), [](const Instruction& i) {
    return i.domain == Domain::kScalar && i.kind == Kind::kApply &&
           (i.type == ir::RegisterType::kF64 || ir::is_transcendental(i.op));
  });
}

bool is_direct(const Loop& loop, const Instruction& accumulation) {
  return loop.num_blocks == 1 || (loop.split == Loop::Split::kInner && accumulation.keeps_inner);
}

ThreadMap map_threads(const Loop& loop, const ir::DeviceSpec& device) {
  const Needs needs = needs_of(loop);
  ThreadMap map;
  const bool needs_rows = needs.has_reduce || needs.has_row_sink || needs.has_segments;
  const bool splits_inner = loop.split == Loop::Split::kInner && loop.num_blocks > 1;
  if (!needs_rows && !needs.sums_columns) {
    map_flat(loop, device, needs, map);
  } else if (splits_inner && needs.sums_columns) {
    map_columns(loop, needs, map);
  } else {
    map_rows(loop, device, needs, map);
  }
  return map;
}

}  // namespace monograph::codegen
