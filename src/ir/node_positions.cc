#include "ir/node_positions.h"

#include <bit>

namespace monograph::ir {

NodePositions::NodePositions(const Graph& graph) {
  const auto num_nodes = static_cast<uint64_t>(graph.num_nodes());
  const uint64_t size = std::bit_ceil(2 * num_nodes + 2);
  slots_.resize(size, {nullptr, -1});
  shift_ = 64 - std::countr_zero(size);
  for (int position = 0; position < graph.num_nodes(); ++position) {
    const Node* node = graph.nodes()[position].get();
    size_t slot = first_slot(node);
    while (slots_[slot].first != nullptr) slot = (slot + 1) & (size - 1);
    slots_[slot] = {node, position};
  }
}

int NodePositions::operator()(const Node* node) const {
  if (node == nullptr) return -1;
  size_t slot = first_slot(node);
  while (slots_[slot].first != node && slots_[slot].first != nullptr) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slots_[slot].second;
}

// Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4): addresses of nodes differ in
// their middle bits, the product in its upper ones.
size_t NodePositions::first_slot(const Node* node) const {
  return (reinterpret_cast<uintptr_t>(node) * 0x9E3779B97F4A7C15u) >> shift_;
}

}  // namespace monograph::ir
