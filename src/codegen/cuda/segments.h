#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/columns.h"
#include "codegen/cuda/kernel_text.h"

namespace monograph::codegen::cuda {

// Sums over the positions of a row's segment, several of which a group reads at once. Where groups
// are warps, a segment longer than kLongSegment (an id that is in every text) is shared out to all
// warps of the block, whose sums are added in order of warps.
class Segments {
 public:
  static constexpr int kLongSegment = 64;

  Segments(const KernelText& text, const Columns& columns);

  bool empty() const { return ids_.empty(); }
  // Blocks share long segments: sum_all() comes before the first sweep, and rows past the end take
  // part in it.
  bool is_shared() const { return is_shared_; }
  void declare_shared(SourceWriter& out) const;
  void sum_all(SourceWriter& out) const;
  // One segment by the group that has the row.
  void sum(SourceWriter& out, int id) const;

 private:
  void zero(SourceWriter& out, const std::string& total, int id) const;
  void add_positions(SourceWriter& out, int id, const std::string& total, const std::string& begin,
                     const std::string& end, int step) const;
  void add_position(SourceWriter& out, int id, const std::string& total) const;
  void sum_long(SourceWriter& out, int id) const;
  void for_steps(SourceWriter& out, const std::string& work) const;

  const KernelText& text_;
  const Columns& columns_;
  std::vector<int> ids_;
  bool is_shared_ = false;
};

}  // namespace monograph::codegen::cuda
