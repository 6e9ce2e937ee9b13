#pragma once

#include <string>
#include <vector>

#include "codegen/cpu/addresses.h"
#include "codegen/source_writer.h"
#include "codegen/value_types.h"
#include "ir/loop/loop.h"

namespace monograph::codegen {

// An array of `count` elements in the scope of a block: on the stack, or on the heap when it is
// long.
void declare_array(SourceWriter& out, std::string_view type, const std::string& name,
                   int64_t count);
void release_array(SourceWriter& out, const std::string& name, int64_t count);

// "0.0f", or what a maximum begins with.
std::string initial_text(ir::Reduction reduction, CType type);

// The sums and maxima over rows of a loop: per block, then added in the order of blocks, so that
// the result does not depend on the number of threads.
class Accumulators {
 public:
  // `bounds`: the same loop at the largest sizes that it runs at (see render).
  Accumulators(const ir::Loop& loop, const ir::Loop& bounds, const ValueTypes& types,
               const Addresses& addresses);

  bool empty() const { return ids_.empty(); }
  void open_block(SourceWriter& out) const;
  // Adds `value` for one row (row domain) or one element at column `i` (element domain).
  std::string update_text(int id, const std::string& value) const;
  // What `omp simd` must know of it: "reduction(+:a5)"; empty for column accumulations.
  std::string clause(int id) const;
  void close_block(SourceWriter& out) const;
  // After all blocks: adds their partial results.
  void finish(SourceWriter& out) const;

 private:
  const ir::Instruction& at(int id) const { return loop_.instructions[id]; }
  CType type(int id) const { return types_.of(id); }
  bool is_direct(int id) const;        // no other block adds to the same result
  bool tracks_nan(int id) const;       // the maximum of an `omp simd` loop drops NaN
  std::string partials(int id) const;  // "b5 + 128", of block 0
  std::string store(int id, const std::string& element, const std::string& value) const;
  std::string combined(int id, const std::string& a, const std::string& b) const;
  void finish_scalar(SourceWriter& out, int id) const;
  void finish_columns(SourceWriter& out, int id) const;

  const ir::Loop& loop_;
  const ir::Loop& bounds_;
  const ValueTypes& types_;
  const Addresses& addresses_;
  std::vector<int> ids_;
};

}  // namespace monograph::codegen
