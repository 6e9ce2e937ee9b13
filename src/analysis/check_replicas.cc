#include "analysis/check_replicas.h"

#include "ir/mesh.h"
#include "ir/state_role.h"

namespace monograph::analysis {
namespace {

using Varying = std::map<std::string, Axes>;  // of states, by name: the axes over which they differ

EqualValues equal_values(const ir::Graph& graph, const Axes& axes, const Axes& batch_axes,
                         const Varying& varying) {
  EqualValues equal(axes, [&](const ir::Node& node) {
    Axes result = axes;
    const auto drop = [&](const Axes& others) {
      for (const std::string& axis : others) result.erase(axis);
    };
    if (node.is("input")) drop(batch_axes);
    if (const auto found = varying.find(node.name()); found != varying.end()) drop(found->second);
    if (node.name().starts_with(ir::kCoordinatePrefix)) {
      result.erase(node.name().substr(ir::kCoordinatePrefix.size()));
    }
    return result;
  });
  for (const auto& node : graph.nodes()) equal.visit(*node);
  return equal;
}

}  // namespace

std::vector<Divergence> check_replicas(const ir::Graph& graph, const Axes& axes,
                                       const Axes& batch_axes,
                                       const std::map<std::string, Axes>& parts) {
  Varying varying = parts;
  std::vector<Divergence> found;
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    const EqualValues equal = equal_values(graph, axes, batch_axes, varying);
    for (const ir::Graph::Update& update : graph.updates()) {
      const bool is_buffer =
          ir::parse_role(update.state->attribute<std::string>("role")) == ir::StateRole::kBuffer;
      for (const std::string& axis : axes) {
        if (equal.are_equal(update.next, axis)) continue;
        if (!varying[update.state->name()].insert(axis).second) continue;
        has_changed = true;
        if (!is_buffer) found.push_back({update.state->name(), axis});
      }
    }
  }
  return found;
}

}  // namespace monograph::analysis
