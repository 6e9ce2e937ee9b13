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
  // A load that is brought to shared memory while the row before is worked on.
  bool comes_ahead(int id) const;

 private:
  bool is_held(int id, const ColumnWork& work) const;  // by an earlier sweep
  bool is_ahead(int id, const ColumnWork& work) const;
  bool in_registers() const { return text_.map().in_registers; }
  std::string load_pack(int id, int width) const;
  std::string pack_name(int id, const ColumnWork& work) const;
  std::string value(int id, const ColumnWork& work) const;
  void prepare_value(SourceWriter& out, int id, const ColumnWork& work) const;
  void keep_packs(SourceWriter& out, const ColumnWork& work) const;
  // Comparisons of the column's number with one number of the row: false in all packs but one.
  std::vector<int> column_tests(const ColumnWork& work) const;
  std::string may_hold(int test, int width) const;
  // A maximum of a load's numbers as they are stored is taken of a pack at once.
  bool is_max_of_packs(int id, const ColumnWork& work) const;
  struct Statement {  // const float v7 = text;
    int id;
    std::string text;
    std::vector<int> operands;
  };
  struct Statements {
    std::vector<Statement> values;
    std::vector<int> sinks;
  };
  Statements statements(const ColumnWork& work, bool is_false) const;
  void drop_unused(Statements& statements, const ColumnWork& work) const;
  bool is_new(int id, const ColumnWork& work) const;  // computed here, and held for later sweeps
  // One column at a time; `is_false`: with all column tests known to be false.
  void compute_columns(SourceWriter& out, const ColumnWork& work, bool is_false) const;
  void sink(SourceWriter& out, int id) const;
  void store_pack(SourceWriter& out, int id, int width) const;

  const KernelText& text_;
  const Accumulators& accumulators_;
};

}  // namespace monograph::codegen::cuda
