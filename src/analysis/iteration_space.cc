#include "analysis/iteration_space.h"

#include <algorithm>

#include "base/error.h"
#include "ops/registry.h"

namespace monograph::analysis {
namespace {

using ir::Shape;

enum class ReductionForm { kRows, kRowsDropped, kColumns, kAll, kMixed };

struct ReductionFacts {
  ReductionForm form;
  int inner_rank;
};

// Which axes a reduction takes: a suffix (rows), a prefix (columns), all, or something between.
ReductionFacts reduction_facts(const ir::Node& node) {
  const auto& axes = node.attribute<std::vector<int64_t>>("axes");
  const Shape& shape = node.operand(0).shape();
  const int rank = shape.rank();
  const int count = static_cast<int>(axes.size());
  if (count == rank) return {ReductionForm::kAll, IterationSpace::kFree};
  const bool is_suffix = axes.front() == rank - count;
  const bool is_prefix = axes.back() == count - 1;
  if (is_suffix) {
    const bool keeps = node.attribute<bool>("keepdim");
    return {keeps ? ReductionForm::kRows : ReductionForm::kRowsDropped, count};
  }
  if (is_prefix) return {ReductionForm::kColumns, rank - count};
  return {ReductionForm::kMixed, IterationSpace::kFree};
}

Shape with_inner_ones(const Shape& shape, int inner_rank) {
  std::vector<int64_t> dims = shape.dims();
  std::fill(dims.end() - inner_rank, dims.end(), 1);
  return Shape(std::move(dims));
}

// The smallest number of trailing dims that, made 1, turn `big` into `small`; kFree when none does.
int row_rank_between(const Shape& small, const Shape& big) {
  if (small.rank() != big.rank()) return IterationSpace::kFree;
  for (int inner = 1; inner <= big.rank(); ++inner) {
    if (with_inner_ones(big, inner) == small) return inner;
  }
  return IterationSpace::kFree;
}

// Along which dims of `shape` the operand stays the same.
std::vector<bool> broadcast_dims(const ir::Value& operand, const Shape& shape) {
  std::vector<bool> result(shape.rank(), true);
  const Shape& own = operand.shape();
  const int missing = shape.rank() - own.rank();
  for (int dim = 0; dim < own.rank(); ++dim) result[missing + dim] = own[dim] == 1;
  if (operand.node->is("iota")) {
    const auto axis = missing + operand.node->attribute<int64_t>("axis");
    for (int dim = 0; dim < shape.rank(); ++dim) result[dim] = result[dim] || dim != axis;
  }
  return result;
}

int mergeable_rank(const ir::Node& node) {
  const Shape& shape = node.types()[0].shape;
  int rank = std::numeric_limits<int>::max();
  for (const ir::Value operand : node.operands()) {
    const std::vector<bool> same = broadcast_dims(operand, shape);
    std::optional<bool> innermost;
    for (int dim = shape.rank() - 1; dim >= 0; --dim) {
      if (shape[dim] == 1) continue;
      if (!innermost) innermost = same[dim];
      if (same[dim] == *innermost) continue;
      rank = std::min(rank, shape.rank() - 1 - dim);
      break;
    }
  }
  return rank;
}

}  // namespace

FuseRole fuse_role(const ir::Node& node) {
  if (node.is("embedding") || node.is("gather") || node.is("segment_sum")) {
    return FuseRole::kIndexed;
  }
  if (node.is("expand")) return FuseRole::kElement;
  const ops::OpDef* op = ops::op_of(node);
  if (op == nullptr || op->has(ops::kLibrary)) return FuseRole::kNone;
  if (op->has(ops::kCreation)) return FuseRole::kCreation;
  if (op->has(ops::kPointwise)) return FuseRole::kElement;
  if (op->has(ops::kReduction)) {
    switch (reduction_facts(node).form) {
      case ReductionForm::kRows:
        return FuseRole::kRowReduction;
      case ReductionForm::kRowsDropped:
      case ReductionForm::kColumns:
      case ReductionForm::kAll:
        return FuseRole::kTerminal;
      case ReductionForm::kMixed:
        return FuseRole::kNone;
    }
  }
  return FuseRole::kNone;
}

bool is_used_outside_kernels(const ir::ValueMap<std::vector<ir::Node*>>& users, ir::Value value) {
  const auto found = users.find(value);
  return found != users.end() &&
         std::all_of(found->second.begin(), found->second.end(),
                     [](const ir::Node* user) { return fuse_role(*user) == FuseRole::kNone; });
}

Shape IterationSpace::row_shape() const {
  return with_inner_ones(shape, std::max(inner_rank, 0));
}

IterationSpace iteration_space(const ir::Node& node) {
  if (ops::has_trait(node, ops::kReduction)) {
    return {node.operand(0).shape(), reduction_facts(node).inner_rank, true};
  }
  if (node.is("gather")) return {node.operand(0).shape(), 1, true};
  if (node.is("embedding") || node.is("segment_sum")) return {node.types()[0].shape, 1, true};
  return {node.types()[0].shape, IterationSpace::kFree, false, mergeable_rank(node)};
}

IterationSpace kernel_space(const ir::Graph& body) {
  // The largest first: [2,1] and [1,3] fit [2,3], but not each other.
  std::vector<std::pair<const ir::Node*, IterationSpace>> spaces;
  for (const auto& node : body.nodes()) {
    if (!node->is_placeholder()) spaces.emplace_back(node.get(), iteration_space(*node));
  }
  check(!spaces.empty(), "kernel: its body is empty");
  std::stable_sort(spaces.begin(), spaces.end(), [](const auto& a, const auto& b) {
    return a.second.shape.num_elements() > b.second.shape.num_elements();
  });
  IterationSpace space = spaces[0].second;
  for (const auto& [node, own] : std::span(spaces).subspan(1)) {
    const std::string_view refused = join(space, own);
    check(refused.empty(), "kernel: '{}' does not fit the others: {}", node->op(), refused);
  }
  return space;
}

bool inner_axes_merge(const ir::Graph& body, const Shape& shape,
                      const std::vector<int64_t>& strides) {
  if (strides == shape.contiguous_strides()) return true;
  const IterationSpace space = kernel_space(body);
  if (space.inner_rank < 2 || !ir::broadcasts_to(shape, space.shape)) return true;
  const std::vector<int64_t> steps = ir::broadcast_strides(shape, strides, space.shape);
  int inner = -1;  // the last dim seen that has more than one index
  for (int dim = space.shape.rank() - 1; dim >= space.shape.rank() - space.inner_rank; --dim) {
    if (space.shape[dim] == 1) continue;
    if (inner >= 0 && steps[dim] != steps[inner] * space.shape[inner]) return false;
    inner = dim;
  }
  return true;
}

std::string_view join(IterationSpace& a, const IterationSpace& b) {
  const bool a_is_big = ir::broadcasts_to(b.shape, a.shape);
  if (!a_is_big && !ir::broadcasts_to(a.shape, b.shape)) return "shapes differ";
  const IterationSpace& big = a_is_big ? a : b;
  const IterationSpace& small = a_is_big ? b : a;
  IterationSpace joined = big;
  joined.has_reduction = a.has_reduction || b.has_reduction;
  if (big.shape == small.shape) {
    if (big.inner_rank != IterationSpace::kFree && small.inner_rank != IterationSpace::kFree &&
        big.inner_rank != small.inner_rank) {
      return "reductions over different axes";
    }
    joined.inner_rank = std::max(big.inner_rank, small.inner_rank);
  } else {
    const int row_rank = row_rank_between(small.shape, big.shape);
    const bool fits_rows = row_rank != IterationSpace::kFree &&
                           (big.inner_rank == IterationSpace::kFree || big.inner_rank == row_rank);
    if (small.has_reduction) {
      // Row values reduced over all rows stay correct in the larger space; nothing else does.
      if (!fits_rows || small.inner_rank != IterationSpace::kFree)
        return "a reduction of a smaller space";
      joined.inner_rank = row_rank;
    } else if (fits_rows && small.shape.num_elements() > 1) {
      joined.inner_rank = row_rank;
    }
  }
  joined.mergeable_rank = std::min(a.mergeable_rank, b.mergeable_rank);
  if (joined.inner_rank > joined.mergeable_rank) return "broadcast along some of the inner axes";
  a = joined;
  return {};
}

bool can_store(const IterationSpace& space, const Shape& shape) {
  if (shape.num_elements() == 1 || shape == space.shape) return true;
  return space.inner_rank != IterationSpace::kFree && shape == space.row_shape();
}

}  // namespace monograph::analysis
