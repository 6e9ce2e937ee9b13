#include "analysis/in_place.h"

#include <algorithm>

#include "analysis/iteration_space.h"
#include "ops/registry.h"

namespace monograph::analysis {
namespace {

using ir::Node;
using ir::Value;

int64_t space_of(const ir::Graph& body) {
  int64_t largest = 0;
  for (const auto& node : body.nodes()) {
    for (Value operand : node->operands()) {
      largest = std::max(largest, operand.type().num_elements());
    }
    for (const ir::TensorType& type : node->types()) {
      largest = std::max(largest, type.num_elements());
    }
  }
  return largest;
}

// Walks a body in order, as lowering numbers the sweeps: what a row reduction gives is there one
// sweep later.
class Sweeps {
 public:
  Sweeps(const ir::Graph& body, const Node& input) {
    elements_.insert(&input);
    for (const auto& node : body.nodes()) visit(*node);
    for (const auto& output : body.outputs()) {
      if (elements_.contains(output.value.node)) read_in(ready_[output.value.node]);
    }
  }

  // Somewhere else than where it is written; one element of each row is picked at a known time.
  bool is_indexed() const { return is_indexed_ || (last_pick_ >= 0 && num_picked_ != num_rows_); }
  int last_read() const { return last_read_; }
  int last_pick() const { return last_pick_; }
  int ready(const Node* node) const { return ready_.at(node); }

 private:
  void visit(const Node& node) {
    int& ready = ready_[&node];
    bool reads = false;
    for (Value operand : node.operands()) {
      ready = std::max(ready, ready_.at(operand.node));
      reads |= elements_.contains(operand.node);
    }
    const FuseRole role = fuse_role(node);
    const bool is_reduction = role == FuseRole::kRowReduction || role == FuseRole::kTerminal;
    if (reads && node.is("gather")) {
      last_pick_ = std::max(last_pick_, ready);
      num_picked_ = std::max(num_picked_, node.types()[0].num_elements());
    } else if (reads && role == FuseRole::kIndexed) {
      is_indexed_ = true;
    }
    if (role == FuseRole::kRowReduction) num_rows_ = node.types()[0].num_elements();
    if (reads && is_reduction) read_in(ready);
    if (reads && !is_reduction) elements_.insert(&node);
    if (is_reduction) ++ready;
  }

  void read_in(int sweep) { last_read_ = std::max(last_read_, sweep); }

  std::unordered_map<const Node*, int> ready_;
  std::unordered_set<const Node*> elements_;  // computed from the input element by element
  bool is_indexed_ = false;
  int last_read_ = 0, last_pick_ = -1;
  int64_t num_picked_ = 0, num_rows_ = -1;
};

}  // namespace

bool may_overwrite(const ir::Graph& body, int result, int operand) {
  const Value written = body.outputs()[result].value;
  const Node& read = *body.inputs()[operand];
  if (written.type() != read.types()[0] || written.node == &read) return false;
  if (written.type().num_elements() != space_of(body)) return false;
  const FuseRole role = fuse_role(*written.node);
  if (role != FuseRole::kElement) return false;
  const Sweeps sweeps(body, read);
  // What is picked stands elsewhere in the row, which all of a block's threads share: between the
  // pick and the store there must be a sweep's end.
  const int store = sweeps.ready(written.node);
  return !sweeps.is_indexed() && sweeps.last_read() <= store && sweeps.last_pick() < store;
}

bool is_elementwise(const ir::Graph& body) {
  return std::all_of(body.nodes().begin(), body.nodes().end(), [](const auto& node) {
    return node->is_placeholder() || ops::has_trait(*node, ops::kPointwise) ||
           ops::has_trait(*node, ops::kCreation);
  });
}

}  // namespace monograph::analysis
