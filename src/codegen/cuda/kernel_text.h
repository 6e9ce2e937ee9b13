#pragma once

#include <string>
#include <vector>

#include "codegen/source_writer.h"
#include "codegen/sweep_plan.h"
#include "codegen/thread_map.h"
#include "codegen/value_types.h"
#include "ir/loop/loop.h"

namespace monograph::codegen::cuda {

// What all parts of the renderer know of a Loop, and the CUDA C++ of its values and places.
class KernelText {
 public:
  KernelText(const ir::Loop& loop, const ir::DeviceSpec& device);

  const ir::Loop& loop() const { return loop_; }
  const ThreadMap& map() const { return map_; }
  const SweepPlan& plan() const { return plan_; }
  const ValueTypes& types() const { return types_; }
  const ir::Instruction& at(int id) const { return loop_.instructions[id]; }
  int size() const { return static_cast<int>(loop_.instructions.size()); }
  int64_t num_blocks() const { return num_blocks_; }  // of the grid

  // --- places
  // "768 * row + 5": where an access begins in this row, in 32 bits if that is enough.
  std::string start(const ir::Access& access) const;
  // The element number at a column: "768 * row + column".
  std::string element(const ir::Access& access, const std::string& column) const;
  // Row indices that start() refers to, as declarations; empty where `row` itself serves.
  std::vector<std::string> row_index_lines() const;
  std::string_view row_type() const;     // "int", where it can count the rows
  std::string_view column_type() const;  // "int", where it can count the columns
  // An output may be the memory of this buffer: what it holds can change during the launch.
  bool may_change(int buffer) const { return may_change_[buffer]; }

  // --- values
  ir::DType dtype_of(const ir::Instruction& i) const {
    return loop_.buffers[i.access.buffer].dtype;
  }
  std::string_view c_type(int id) const { return c_type_name(types_.of(id)); }
  std::string operand(int id) const { return operand(id, types_.of(id)); }
  std::string operand(int id, CType wanted) const;  // the value as an operand of that type
  std::string apply(int id) const;
  std::string random(int id, const std::string& element) const;
  // A value of scalar or row domain, or an element value that is the same along the row.
  std::string row_value(int id) const;
  bool is_along_row(int id) const;  // such an element value
  // Declares the value, and its clamped copy if it is compared with ints.
  void declare(SourceWriter& out, int id, const std::string& value) const;
  // Random numbers of neighbouring columns are made four at a time.
  bool makes_packs(int id) const;

  std::string parameters() const;                            // "const bf16* b0, float* b1"
  std::string_view op_name(const ir::Instruction& i) const;  // "Sum", "Max"
  std::string combined(int id, const std::string& a, const std::string& b) const;
  std::string zero(int id) const;  // what a reduction begins with

 private:
  int64_t stride(const ir::Access& access, size_t axis) const;
  bool steps_evenly(const ir::Access& access) const;
  bool is_wide(const ir::Access& access) const;
  void find_rounded();

  const ir::Loop& loop_;
  ThreadMap map_;
  SweepPlan plan_;
  ValueTypes types_;
  int64_t num_blocks_ = 1;
  std::vector<bool> uses_axis_;
  std::vector<bool> may_change_;  // by buffer
  std::vector<bool> is_rounded_;  // by instruction: it comes from numbers of 16 bits
};

bool is_sink(const ir::Instruction& instruction);  // a store or an accumulation
bool has_address(const ir::Instruction& instruction);
bool varies_by_row(const ir::Access& access);

}  // namespace monograph::codegen::cuda
