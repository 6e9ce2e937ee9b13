#pragma once

#include <string>
#include <vector>

#include "ir/loop/loop.h"

namespace monograph::codegen {

// C++ text of where the accesses of a loop lie, and of the part of a row that a block works on.
class Addresses {
 public:
  // `bounds`: the same loop at the largest sizes that it runs at (see render).
  Addresses(const ir::Loop& loop, const ir::Loop& bounds);

  // The element number at the start of the block's part of the row: "512L * row + 64L * low + 5".
  std::string first(const ir::Access& access) const;
  // The row indices that first() refers to, as declarations; empty where `row` itself serves.
  std::vector<std::string> row_index_lines() const;
  // "int", where it can count the rows.
  std::string_view row_type() const;

  bool splits_inner() const;             // into several blocks: a block begins at column `low`
  int64_t capacity() const;              // the longest part of a row a block works on
  std::string length() const;            // of the block's part: a number or "length"
  std::string_view column_type() const;  // "int", where it can count the columns

 private:
  bool steps_evenly(const ir::Access& access) const;  // row r lies at r * (stride of the last axis)
  int64_t stride(const ir::Access& access, size_t axis) const;

  const ir::Loop& loop_;
  const ir::Loop& bounds_;
  std::vector<bool> is_used_;  // row indices
};

}  // namespace monograph::codegen
