#pragma once

#include <vector>

#include "ir/loop/loop.h"
#include "ir/type.h"

namespace monograph::codegen {

// The dims of an iteration space with, for every access, its stride per dim; adjacent dims that
// every access steps through as one are merged. The last axis is the inner one.
class LoopSpace {
 public:
  // inner_rank: how many trailing dims are the inner axis; -1: as many as merge.
  LoopSpace(ir::Shape shape, int inner_rank) : shape_(std::move(shape)), inner_rank_(inner_rank) {}

  const ir::Shape& shape() const { return shape_; }
  // Adds an access by its strides over the dims of the space; returns its number.
  int add(std::vector<int64_t> strides);
  // Merges dims; after it the row extents and accesses below are final. InternalError when the
  // inner dims do not merge into one axis.
  void collapse();

  const std::vector<int64_t>& row_extents() const { return row_extents_; }
  int64_t inner_extent() const { return inner_extent_; }
  std::vector<int64_t> row_strides(int access) const;
  int64_t inner_stride(int access) const { return strides_[access].back(); }
  // Where a value with these strides lives: it does not change along the inner axis, or at all.
  ir::Domain domain(int access) const;
  // How many distinct elements the access touches.
  int64_t num_distinct(int access) const;

 private:
  bool merges(int outer) const;  // dim `outer` with `outer + 1`
  void merge(int outer);

  ir::Shape shape_;
  int inner_rank_;
  std::vector<int64_t> extents_;
  std::vector<std::vector<int64_t>> strides_;  // by access
  std::vector<int64_t> row_extents_;
  int64_t inner_extent_ = 1;
};

}  // namespace monograph::codegen
