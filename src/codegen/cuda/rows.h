#pragma once

#include <vector>

#include "codegen/cuda/accumulators.h"
#include "codegen/cuda/columns.h"
#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/segments.h"

namespace monograph::codegen::cuda {

// The body of a kernel whose threads go through rows in groups (ThreadMap).
class Rows {
 public:
  Rows(const KernelText& text, const Accumulators& accumulators);

  // Everything between the scalars and the end of the launch.
  void render(SourceWriter& out);
  int64_t shared_bytes() const { return shared_bytes_; }  // dynamic

 private:
  const ir::Instruction& at(int id) const { return text_.at(id); }
  void declare_shared(SourceWriter& out);
  void render_row_loop(SourceWriter& out);
  void render_rows_in_flight(SourceWriter& out);
  void render_row(SourceWriter& out);
  void declare_next_row(SourceWriter& out);
  void start_next_row(SourceWriter& out, const std::string& row, const std::string& half) const;
  void wait_for_row(SourceWriter& out) const;
  void render_sweep(SourceWriter& out, int number);
  void declare_row_values(SourceWriter& out, int sweep) const;
  void prepare(SourceWriter& out, int id);
  void open_columns(SourceWriter& out) const;
  void reduce(SourceWriter& out, const std::vector<int>& ids) const;
  void render_row_sinks(SourceWriter& out) const;
  bool must_wait_before_stores(int sweep) const;
  std::string wait() const;
  int num_reducing_sweeps() const;

  const KernelText& text_;
  const Accumulators& accumulators_;
  Columns columns_;
  Segments segments_;
  std::vector<bool> is_prepared_;
  int64_t shared_bytes_ = 0;
};

}  // namespace monograph::codegen::cuda
