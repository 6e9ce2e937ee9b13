#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/accumulators.h"
#include "codegen/cuda/kernel_text.h"

namespace monograph::codegen::cuda {

// What is computed for `width` neighbouring columns, from `column` on, in one sweep.
struct ColumnWork {
  std::vector<int> values;  // element values, in order
  std::vector<int> sinks;   // reductions, accumulations, stores
  std::vector<int> kept;    // of `values`: held for later sweeps
  int sweep = 0;            // of `values`, those that an earlier sweep has kept are read back
  bool reads_kept = true;   // false: nothing is held (a flat loop has no sweeps)
  int width = 1;
  // Where packs of loads that were read ahead lie: p3[step]; empty: nothing was read ahead.
  std::string step = {};
};

// Prints column work. Names: p3 a pack that load %3 read, k3 what is held of %3 (a pack a step in
// registers, or the row in shared memory), u3 random numbers, s3 a pack to store, v3 one value.
class Columns {
 public:
  Columns(const KernelText& text, const Accumulators& accumulators)
      : text_(text), accumulators_(accumulators) {}

  // Loads that go to memory for this row, to be issued before the first use of any.
  std::vector<int> loads_ahead(const ColumnWork& work) const;
  void declare_packs(SourceWriter& out, const std::vector<int>& ids, int width,
                     const std::string& count) const;
  void read_ahead(SourceWriter& out, const ColumnWork& work, const std::vector<int>& ids) const;
  // All the rest, for one pack of columns.
  void compute(SourceWriter& out, const ColumnWork& work) const;
  // "Pack<bf16, 8>": what is held of a value, or read for a load.
  std::string pack_type(int id, int width) const;

 private:
  bool is_held(int id, const ColumnWork& work) const;  // by an earlier sweep
  bool is_ahead(int id, const ColumnWork& work) const;
  bool in_registers() const { return text_.map().in_registers; }
  std::string load_pack(int id, int width) const;
  std::string pack_name(int id, const ColumnWork& work) const;
  std::string value(int id, const ColumnWork& work) const;
  void prepare_value(SourceWriter& out, int id, const ColumnWork& work) const;
  void keep_packs(SourceWriter& out, const ColumnWork& work) const;
  void sink(SourceWriter& out, int id) const;
  void store_pack(SourceWriter& out, int id, int width) const;

  const KernelText& text_;
  const Accumulators& accumulators_;
};

}  // namespace monograph::codegen::cuda
