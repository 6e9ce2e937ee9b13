#include "passes/fuse/legalize_reductions.h"

#include <algorithm>
#include <numeric>

#include "ir/rewriter.h"
#include "ops/builder.h"
#include "ops/registry.h"

namespace monograph::passes {
namespace {

using Axes = std::vector<int64_t>;

bool is_suffix(const Axes& axes, int rank) {
  return axes.front() == rank - static_cast<int64_t>(axes.size());
}
bool is_prefix(const Axes& axes) {
  return axes.back() == static_cast<int64_t>(axes.size()) - 1;
}

// The trailing axes that end the dims; where none does, the last axis, to be permuted there.
Axes last_run(const Axes& axes, int rank) {
  Axes run;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (*axis != rank - 1 - static_cast<int64_t>(run.size())) break;
    run.insert(run.begin(), *axis);
  }
  return run.empty() ? Axes{axes.back()} : run;
}

ir::Value reduce(ops::Builder& build, const std::string& op, ir::Value x, Axes axes) {
  const int rank = x.shape().rank();
  const auto emit = [&](ir::Value value, Axes over) {
    return build.emit(op, {value}, {{"axes", std::move(over)}, {"keepdim", false}});
  };
  if (axes.empty()) return x;
  if (is_suffix(axes, rank) || is_prefix(axes)) return emit(x, axes);
  const Axes run = last_run(axes, rank);
  axes.resize(axes.size() - run.size());
  if (is_suffix(run, rank)) return reduce(build, op, emit(x, run), axes);
  Axes order(rank);
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + run[0]);
  order.push_back(run[0]);
  return reduce(build, op, emit(build.permute(x, order), {rank - 1}), axes);
}

}  // namespace

bool legalize_reductions(ir::Graph& graph, PassContext&) {
  ops::Builder build(graph);
  return ir::rewrite(graph, [&](ir::Node& node) -> ir::Rewrite {
    if (!ops::has_trait(node, ops::kReduction)) return ir::keep();
    const Axes& axes = node.attribute<Axes>("axes");
    if (is_suffix(axes, node.operand(0).shape().rank()) || is_prefix(axes)) return ir::keep();
    return build.reshape(reduce(build, node.op(), node.operand(0), axes), node.types()[0].shape);
  });
}

}  // namespace monograph::passes
