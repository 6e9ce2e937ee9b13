#include "ir/graph_table.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "ir/printer.h"

namespace monograph::ir {
namespace {

// By bits, as the hash does: NaN equals itself, 0.0 is not -0.0.
bool same_attribute(const Attribute& a, const Attribute& b) {
  const auto* x = std::get_if<double>(&a);
  const auto* y = std::get_if<double>(&b);
  if (x == nullptr || y == nullptr) return a == b;
  return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y);
}

bool same_attributes(const Attributes& a, const Attributes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && same_attribute(x.second, y.second);
  });
}

class Comparison {
 public:
  Comparison(const Graph& a, const Graph& b) : a_(a), b_(b) {
    for (const auto& node : a.nodes()) a_ids_.emplace(node.get(), static_cast<int>(a_ids_.size()));
    for (const auto& node : b.nodes()) b_ids_.emplace(node.get(), static_cast<int>(b_ids_.size()));
  }

  std::optional<std::string> run() const {
    const int common = std::min(a_.num_nodes(), b_.num_nodes());
    for (int i = 0; i < common; ++i) {
      if (auto difference = difference_of_nodes(i)) return difference;
    }
    if (a_.num_nodes() != b_.num_nodes()) {
      const auto node_text = [&](const Graph& graph) -> std::string {
        if (graph.num_nodes() == common) return "no node";
        return to_text(*graph.nodes()[common], ValueNames(graph));
      };
      return fmt::format("node {}: {} against {}", common, node_text(a_), node_text(b_));
    }
    return difference_of_roots();
  }

 private:
  static int id_in(const std::unordered_map<const Node*, int>& ids, const Node* node) {
    const auto found = ids.find(node);
    return found == ids.end() ? -1 : found->second;
  }
  bool same_value(Value a, Value b) const {
    return a.index == b.index && id_in(a_ids_, a.node) == id_in(b_ids_, b.node);
  }

  std::optional<std::string> difference_of_nodes(int i) const {
    const Node& a = *a_.nodes()[i];
    const Node& b = *b_.nodes()[i];
    const bool same =
        a.op() == b.op() && a.phase() == b.phase() && a.types() == b.types() &&
        same_attributes(a.attributes(), b.attributes()) &&
        (a.body() == nullptr) == (b.body() == nullptr) &&
        std::equal(a.operands().begin(), a.operands().end(), b.operands().begin(),
                   b.operands().end(), [&](Value x, Value y) { return same_value(x, y); });
    if (!same) {
      return fmt::format("node {}: {} against {}", i, to_text(a, ValueNames(a_)),
                         to_text(b, ValueNames(b_)));
    }
    if (a.body() == nullptr) return {};
    const auto inner = first_difference(*a.body(), *b.body());
    if (!inner) return {};
    return fmt::format("body of node {}: {}", i, *inner);
  }

  std::optional<std::string> difference_of_roots() const {
    const auto same_output = [&](const Graph::Output& x, const Graph::Output& y) {
      return same_value(x.value, y.value);
    };
    const auto same_update = [&](const Graph::Update& x, const Graph::Update& y) {
      return same_value({x.state, 0}, {y.state, 0}) && same_value(x.next, y.next);
    };
    const auto& outputs = b_.outputs();
    const auto& updates = b_.updates();
    if (!std::equal(a_.outputs().begin(), a_.outputs().end(), outputs.begin(), outputs.end(),
                    same_output)) {
      return "the outputs differ";
    }
    if (!std::equal(a_.updates().begin(), a_.updates().end(), updates.begin(), updates.end(),
                    same_update)) {
      return "the state updates differ";
    }
    return {};
  }

  const Graph& a_;
  const Graph& b_;
  std::unordered_map<const Node*, int> a_ids_, b_ids_;
};

}  // namespace

std::optional<std::string> first_difference(const Graph& a, const Graph& b) {
  return Comparison(a, b).run();
}

bool same_graph(const Graph& a, const Graph& b) {
  return !first_difference(a, b).has_value();
}

GraphTable::GraphTable(int hash_bits) : hash_bits_(hash_bits) {
  check(hash_bits >= 1 && hash_bits <= 128, "GraphTable: {} hash bits, use 1 to 128", hash_bits);
}

Hash GraphTable::truncated_hash(const Graph& graph) const {
  const auto low_bits = [](uint64_t word, int count) {
    return count >= 64 ? word : count <= 0 ? 0 : word & ((uint64_t{1} << count) - 1);
  };
  const Hash hash = graph.hash();
  return {low_bits(hash.high, hash_bits_ - 64), low_bits(hash.low, hash_bits_)};
}

std::optional<int> GraphTable::find(const Graph& graph) const {
  const auto found = by_hash_.find(truncated_hash(graph));
  if (found == by_hash_.end()) return {};
  for (const int number : found->second) {
    if (same_graph(*graphs_[number], graph)) return number;
  }
  return {};
}

int GraphTable::add(const Graph& graph) {
  if (const auto number = find(graph)) return *number;
  const Hash hash = truncated_hash(graph);
  std::vector<int>& numbers = by_hash_[hash];
  for (const int other : numbers) {
    collisions_.push_back(
        {other, size(),
         fmt::format("graphs {} and {} have the hash {} and differ: {}", other, size(), hash.hex(),
                     *first_difference(*graphs_[other], graph))});
  }
  numbers.push_back(size());
  graphs_.push_back(graph.clone());
  return size() - 1;
}

}  // namespace monograph::ir
