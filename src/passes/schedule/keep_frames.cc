#include "passes/schedule/keep_frames.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ops/collective/transfer.h"
#include "ops/registry.h"

namespace monograph::passes {
namespace {

using ir::Node;

constexpr int kFramesOfASend = 4;

// Where each node runs, by id. Dones wait for their readers.
std::vector<int> places_of(const ir::Graph& graph) {
  std::vector<int> places(graph.num_nodes(), std::numeric_limits<int>::max());
  const auto& nodes = graph.nodes();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const Node& node = **it;
    int& place = places[node.id()];
    if (node.is("send_done")) {
      place = std::min(place, node.operand(0).node->provenance().frame + kFramesOfASend);
    } else if (!node.is("recv_done")) {
      place = std::min(place, node.provenance().frame);
    }
    for (const ir::Value operand : node.operands()) {
      int& before = places[operand.node->id()];
      before = std::min(before, place);
    }
  }
  return places;
}

}  // namespace

bool keep_frames(ir::Graph& graph, PassContext&) {
  graph.renumber();
  const bool has_frames =
      std::any_of(graph.nodes().begin(), graph.nodes().end(),
                  [](const auto& node) { return node->provenance().frame > 0; });
  if (!has_frames) return false;
  const std::vector<int> places = places_of(graph);
  for (const auto& node : graph.nodes()) {
    if (!ops::is_transfer(*node)) continue;
    check(places[node->id()] == node->provenance().frame, "{} of frame {} is needed in frame {}",
          node->attribute_or("tag", node->op()), node->provenance().frame, places[node->id()]);
  }
  std::vector<std::unique_ptr<Node>> nodes = graph.take_nodes();
  std::stable_sort(nodes.begin(), nodes.end(),
                   [&](const auto& a, const auto& b) { return places[a->id()] < places[b->id()]; });
  bool changed = false;
  for (size_t i = 0; i < nodes.size(); ++i) {
    changed = changed || nodes[i]->id() != static_cast<int>(i);
    graph.append(std::move(nodes[i]));
  }
  graph.renumber();
  return changed;
}

}  // namespace monograph::passes
