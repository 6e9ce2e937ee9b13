#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/kernel_text.h"

namespace monograph::codegen::cuda {

// The sums and maxima over rows: every thread adds up what it meets, a block its threads, and, if
// there are several blocks, a second launch the blocks; always in one order.
//   columns ("keeps_inner")   a thread's own columns: Pack<float, 4> a5[steps], or a5[column] in
//                             shared memory where a row does not fit in registers
//   all                       one number a thread: a5
class Accumulators {
 public:
  explicit Accumulators(const KernelText& text);

  bool needs_finish() const;  // some results go through partial ones
  const std::vector<int>& ids() const { return ids_; }

  // Declares those of all elements (`columns` false) or of columns, with their beginning.
  void open(SourceWriter& out, bool columns) const;
  // Adds the value of a row, or of one column, which is `step` and `i` of the thread's.
  std::string update(int id, const std::string& value) const;
  // After the rows: columns of the block, beginning at `low` ("" for 0).
  void close_columns(SourceWriter& out) const;
  // At the end of the launch: what is summed over all elements.
  void close_all(SourceWriter& out) const;
  // The body of the second launch for accumulation number `number` of ids().
  void finish(SourceWriter& out, size_t number) const;
  int64_t columns_of_finish() const;  // the most that a result has

 private:
  const ir::Instruction& at(int id) const { return text_.at(id); }
  bool goes_direct(int id) const { return is_direct(text_.loop(), at(id)); }
  std::string partials(int id) const;  // "b5 + 128"
  std::string store(int id, const std::string& column, const std::string& value) const;
  void add_groups(SourceWriter& out, int id) const;
  void open_column_loop(SourceWriter& out) const;

  const KernelText& text_;
  std::vector<int> ids_;
};

}  // namespace monograph::codegen::cuda
