#pragma once

#include <vector>

#include "ir/loop/loop.h"

namespace monograph::codegen {

// What each sweep over a row computes: the element values its sinks need, in order, without those
// that lie in row buffers already.
struct Sweep {
  std::vector<int> values;        // element values to compute or to read from their row buffer
  std::vector<int> sinks;         // reductions, accumulations and stores, in order
  std::vector<int> kept;          // of `values`: written to their row buffer here
  std::vector<int> segment_sums;  // filled before this sweep
};

class SweepPlan {
 public:
  explicit SweepPlan(const ir::Loop& loop);

  const std::vector<Sweep>& sweeps() const { return sweeps_; }
  // Whether `id` is read from a row buffer in sweep `sweep`.
  bool is_buffered(int id, int sweep) const;
  // All element values with a row buffer, in order.
  const std::vector<int>& row_buffers() const { return row_buffers_; }
  // Rough cost of the whole loop, in units of one vectorised arithmetic instruction per element.
  double cost() const;

 private:
  void add_sweep(int number);

  const ir::Loop& loop_;
  std::vector<Sweep> sweeps_;
  std::vector<int> row_buffers_;
  std::vector<bool> is_filled_;  // segment sums
};

}  // namespace monograph::codegen
