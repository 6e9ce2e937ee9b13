#pragma once

#include <cstdint>
#include <vector>

#include "ir/device_spec.h"
#include "ir/loop/loop.h"

namespace monograph::codegen {

// How the elements of a Loop fall on the threads of a GPU. Scheduling takes the number of blocks
// from it, the CUDA renderer all the rest.
//   flat   every thread does whole columns by itself: element (row, column) is a number
//   rows   a group of threads goes through a row together and reduces along it; a block holds
//          several groups, which take rows in turn. A group's columns stay the same from row to
//          row, so that sums over rows stay in registers. With `tiles_columns` a block takes a
//          part of the columns of all rows.
struct ThreadMap {
  bool is_flat = false;
  int width = 1;             // columns a thread accesses at once, at most 16 bytes
  int threads_per_row = 1;   // of a group: a power of 2 up to 32, or a multiple of 32
  int rows_at_once = 1;      // groups in a block
  int steps = 1;             // rows: accesses of a thread along its row; flat: in flight at once
  bool in_registers = true;  // rows: all of a thread's columns are; else steps is 0, and kept
                             // values lie in shared memory
  int rows_of_block = 1;     // taken at once; fewer than groups where groups share segments
  int rows_in_flight = 1;    // rows whose loads a group issues together
  bool tiles_columns = false;
  int64_t shared_bytes = 0;  // of kept values, where they are not in registers
  // Of those, loads that are under way for the next row while this one is worked on.
  std::vector<int> loads_of_next_row = {};
  int blocks_at_once = 1;  // on a multiprocessor, by an estimate of registers
  int64_t num_blocks = 1;  // what fills the device; a Loop that sums over blocks has its own
  int threads() const { return threads_per_row * rows_at_once; }
  int64_t columns_of_block() const { return int64_t{width} * threads_per_row * steps; }
};

// `loop`: its sweeps and kept values are decided.
ThreadMap map_threads(const ir::Loop& loop, const ir::DeviceSpec& device);

// Bytes that a kept value takes per column: loads stay as they are stored.
int kept_bytes(const ir::Loop& loop, const ir::Instruction& instruction);

// Whether a row of `bytes` a column can stay in the registers or the shared memory of one block.
bool fits_on_chip(const ir::Loop& loop, int64_t bytes, const ir::DeviceSpec& device);

// Powers and f64 among the scalars: done once a block rather than once a thread, and by as few
// blocks as fill the device.
bool scalars_take_long(const ir::Loop& loop);

// What of an accumulation goes through partial results: not those of a single block, or of a block
// that has its columns for itself.
bool is_direct(const ir::Loop& loop, const ir::Instruction& accumulation);

}  // namespace monograph::codegen
