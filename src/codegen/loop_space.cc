#include "codegen/loop_space.h"

#include "base/error.h"

namespace monograph::codegen {

int LoopSpace::add(std::vector<int64_t> strides) {
  check(static_cast<int>(strides.size()) == shape_.rank(), "loop: {} strides for {}",
        strides.size(), shape_.str());
  // A dim of one element is never stepped over.
  for (int dim = 0; dim < shape_.rank(); ++dim) {
    if (shape_[dim] == 1) strides[dim] = 0;
  }
  strides_.push_back(std::move(strides));
  return static_cast<int>(strides_.size()) - 1;
}

bool LoopSpace::merges(int outer) const {
  if (extents_[outer] == 1 || extents_[outer + 1] == 1) return true;
  for (const auto& strides : strides_) {
    if (strides[outer] != strides[outer + 1] * extents_[outer + 1]) return false;
  }
  return true;
}

void LoopSpace::merge(int outer) {
  const bool inner_is_one = extents_[outer + 1] == 1;
  for (auto& strides : strides_) {
    if (inner_is_one) strides[outer + 1] = strides[outer];
    strides.erase(strides.begin() + outer);
  }
  extents_[outer + 1] *= extents_[outer];
  extents_.erase(extents_.begin() + outer);
}

void LoopSpace::collapse() {
  extents_ = shape_.dims();
  if (extents_.empty()) {
    extents_ = {1};
    for (auto& strides : strides_) strides = {0};
  }
  int first_inner = shape_.rank() - inner_rank_;
  if (inner_rank_ < 0) {
    first_inner = static_cast<int>(extents_.size()) - 1;
    while (first_inner > 0 && merges(first_inner - 1)) {
      merge(first_inner - 1);
      --first_inner;
    }
  }
  while (static_cast<int>(extents_.size()) - first_inner > 1) {
    const int outer = static_cast<int>(extents_.size()) - 2;
    check(merges(outer), "loop: the inner dims of {} do not merge into one axis", shape_.str());
    merge(outer);
  }
  if (static_cast<int>(extents_.size()) == first_inner) {  // inner_rank 0: rows only
    extents_.push_back(1);
    for (auto& strides : strides_) strides.push_back(0);
  }
  for (int outer = first_inner - 2; outer >= 0; --outer) {
    if (merges(outer)) merge(outer);
  }
  inner_extent_ = extents_.back();
  row_extents_.assign(extents_.begin(), extents_.end() - 1);
  if (row_extents_ == std::vector<int64_t>{1}) {
    row_extents_.clear();
    for (auto& strides : strides_) strides.erase(strides.begin());
  }
}

std::vector<int64_t> LoopSpace::row_strides(int access) const {
  return {strides_[access].begin(), strides_[access].end() - 1};
}

ir::Domain LoopSpace::domain(int access) const {
  const auto& strides = strides_[access];
  if (strides.back() != 0) return ir::Domain::kElement;
  for (int64_t stride : strides) {
    if (stride != 0) return ir::Domain::kRow;
  }
  return ir::Domain::kScalar;
}

int64_t LoopSpace::num_distinct(int access) const {
  int64_t count = 1;
  for (size_t dim = 0; dim < row_extents_.size(); ++dim) {
    if (strides_[access][dim] != 0) count *= row_extents_[dim];
  }
  if (strides_[access].back() != 0) count *= inner_extent_;
  return count;
}

}  // namespace monograph::codegen
