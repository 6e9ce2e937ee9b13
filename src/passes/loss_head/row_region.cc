#include "passes/loss_head/row_region.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/registry.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Value;
using Role = RowRegion::Role;
using Axes = std::vector<int64_t>;

constexpr int64_t kNarrow = 8;  // a row value that is so much smaller than the product may stay

class RegionFinder {
 public:
  RegionFinder(const ir::Graph& graph, Node& product) : graph_(graph) {
    region_.product = &product;
    const ir::Shape& shape = product.types()[0].shape;
    region_.num_rows = shape.num_elements() / shape[-1];
  }

  std::optional<RowRegion> run(std::string& refusal) {
    bool is_after = false;
    for (const auto& node : graph_.nodes()) {
      if (is_after) visit(*node);
      is_after |= node.get() == region_.product;
    }
    for (Value root : graph_.roots()) {
      if (region_.has_rows(root)) leave(root, "it leaves the step");
    }
    const auto is_loss = [&](const Node* node) {
      return node->is("sum") && node->phase() == ir::Phase::kForward &&
             region_.roles.at(node) == Role::kTotal;
    };
    if (refusal_.empty() && std::none_of(region_.nodes.begin(), region_.nodes.end(), is_loss)) {
      refusal_ = "no sum over the rows follows, so it is not the head of a loss";
    }
    refusal = refusal_;
    if (!refusal.empty()) return std::nullopt;
    return std::move(region_);
  }

 private:
  void visit(Node& node) {
    bool reads_rows = false, depends = false;
    for (Value operand : node.operands()) {
      reads_rows |= is_inside(operand);
      depends |= is_inside(operand) || descendants_.contains(operand.node);
    }
    if (depends) descendants_.insert(&node);
    if (!reads_rows) return;
    const std::string reason = why_not(node);
    if (reason.empty()) {
      region_.nodes.push_back(&node);
      return;
    }
    for (Value operand : node.operands()) {
      if (is_inside(operand)) leave(operand, fmt::format("{} reads it: {}", node.op(), reason));
    }
  }

  // Row values and their transposes.
  bool is_inside(Value value) const {
    const auto role = region_.roles.find(value.node);
    return region_.has_rows(value) ||
           (role != region_.roles.end() && role->second == Role::kTransposed);
  }

  // A value that is needed whole.
  void leave(Value value, const std::string& reason) {
    const bool is_narrow = region_.has_rows(value) && value.type().num_bytes() * kNarrow <=
                                                          region_.product->types()[0].num_bytes();
    if (!is_narrow) {
      if (refusal_.empty()) {
        refusal_ = fmt::format("%{} = {} ({}) is needed whole: {}", value.node->id(),
                               value.node->op(), value.type().str(), reason);
      }
      return;
    }
    auto& leaving = region_.leaving;
    if (std::find(leaving.begin(), leaving.end(), value) == leaving.end()) {
      leaving.push_back(value);
    }
  }

  std::string why_not(Node& node) {
    for (Value operand : node.operands()) {
      if (!is_inside(operand) && descendants_.contains(operand.node)) {
        return "it needs a result over all rows as well";
      }
    }
    const std::optional<Role> role = role_of(node);
    if (!role) return "it does not work row by row";
    region_.roles[&node] = *role;
    return "";
  }

  std::optional<Role> role_of(const Node& node) const {
    if (node.is("matmul")) return role_of_product(node);
    const Value x = node.operand(0);
    if (ops::has_trait(node, ops::kPointwise) || node.is("expand")) return role_of_pointwise(node);
    const auto rank = region_.row_rank(x.shape());
    if (!region_.has_rows(x) || !rank) return std::nullopt;
    if (ops::has_trait(node, ops::kReduction)) {
      const Axes& axes = node.attribute<Axes>("axes");
      if (axes.front() >= *rank) return Role::kRow;
      const auto num_row_axes =
          std::count_if(axes.begin(), axes.end(), [&](int64_t axis) { return axis < *rank; });
      if (node.is("sum") && num_row_axes == *rank) return Role::kTotal;
      return std::nullopt;
    }
    if (node.is("reshape") && region_.row_rank(node.types()[0].shape)) return Role::kRow;
    if (node.is("all_reduce")) return Role::kRow;  // ranks have parts of the columns
    if ((node.is("gather") || node.is("slice")) && node.attribute<int64_t>("axis") >= *rank) {
      return Role::kRow;
    }
    if (node.is("permute")) return role_of_permute(node.attribute<Axes>("axes"), *rank);
    return std::nullopt;
  }

  std::optional<Role> role_of_pointwise(const Node& node) const {
    const ir::Shape& shape = node.types()[0].shape;
    const auto rank = region_.row_rank(shape);
    if (!rank) return std::nullopt;
    for (Value operand : node.operands()) {
      const RowUse use = row_use(operand.shape(), shape, *rank);
      const bool fits = region_.has_rows(operand) ? use == RowUse::kEachRow : use != RowUse::kPart;
      if (!fits || (is_inside(operand) && !region_.has_rows(operand))) return std::nullopt;
    }
    return Role::kRow;
  }

  static std::optional<Role> role_of_permute(const Axes& axes, int row_rank) {
    if (row_rank == 1 && axes == Axes{1, 0}) return Role::kTransposed;
    for (int axis = 0; axis < row_rank; ++axis) {
      if (axes[axis] != axis) return std::nullopt;
    }
    return Role::kRow;
  }

  std::optional<Role> role_of_product(const Node& node) const {
    const Value a = node.operand(0), b = node.operand(1);
    if (b.shape().rank() != 2) return std::nullopt;
    if (region_.has_rows(a) && !is_inside(b)) return Role::kRowProduct;
    const bool is_matrix = a.shape().rank() == 2 && a.shape()[1] == region_.num_rows;
    const bool a_fits = !is_inside(a) || !region_.has_rows(a);
    const bool b_fits = region_.has_rows(b) || !is_inside(b);
    if (is_matrix && a_fits && b_fits) return Role::kTotal;
    return std::nullopt;
  }

  const ir::Graph& graph_;
  RowRegion region_;
  std::unordered_set<const Node*> descendants_;  // of the product
  std::string refusal_;
};

}  // namespace

std::optional<int> RowRegion::row_rank(const ir::Shape& shape) const {
  int64_t rows = 1;
  for (int rank = 0; rank < shape.rank(); ++rank) {
    rows *= shape[rank];
    if (rows == num_rows) return rank + 1;
  }
  return std::nullopt;
}

bool RowRegion::has_rows(ir::Value value) const {
  if (value.node == product) return true;
  const auto role = roles.find(value.node);
  return role != roles.end() && role->second == Role::kRow;
}

RowUse row_use(const ir::Shape& operand, const ir::Shape& result, int row_rank) {
  int num_equal = 0, num_broadcast = 0;
  for (int axis = 0; axis < row_rank; ++axis) {
    const int at = axis + operand.rank() - result.rank();
    const int64_t dim = at < 0 ? 1 : operand[at];
    if (at >= 0 && dim == result[axis]) ++num_equal;
    if (dim == 1) ++num_broadcast;
  }
  if (num_equal == row_rank) return RowUse::kEachRow;
  return num_broadcast == row_rank ? RowUse::kShared : RowUse::kPart;
}

std::optional<RowRegion> find_row_region(const ir::Graph& graph, Node& product,
                                         std::string& refusal) {
  return RegionFinder(graph, product).run(refusal);
}

}  // namespace monograph::passes
