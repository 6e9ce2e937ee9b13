#include "analysis/walls.h"

#include <algorithm>

namespace monograph::analysis {

std::vector<int> walls_of(const ir::Graph& graph) {
  std::vector<int> frames;
  bool has_frames = false;
  for (const auto& node : graph.nodes()) {
    frames.push_back(node->provenance().frame);
    has_frames = has_frames || frames.back() > 0;
  }
  if (!has_frames) return {};
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    for (const ir::Value operand : (*node)->operands()) {
      int& frame = frames[operand.node->id()];
      frame = std::min(frame, frames[(*node)->id()]);
    }
  }
  return frames;
}

}  // namespace monograph::analysis
