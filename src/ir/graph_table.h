#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace monograph::ir {

// The first place where two graphs differ in what the graph hash covers (docs/graph_hash.md), with
// both sides: "node 4: %3 = add(%1, %2) : f32[2] against %3 = mul(%1, %2) : f32[2]". Nothing when
// they are equal; names and places may still differ.
std::optional<std::string> first_difference(const Graph& a, const Graph& b);

bool same_graph(const Graph& a, const Graph& b);

// Numbers distinct graphs 0, 1, 2, ... so that a cache keeps an entry by number. Looks up by hash
// and then compares structures: equal hashes of unequal graphs give two numbers and are reported.
// Keeps a copy of each graph.
class GraphTable {
 public:
  // Fewer bits make collisions likely, for tests. 1 to 128.
  explicit GraphTable(int hash_bits = 128);

  // The number of the equal graph, or nothing.
  std::optional<int> find(const Graph& graph) const;
  // The same, or a new number.
  int add(const Graph& graph);
  int size() const { return static_cast<int>(graphs_.size()); }

  // Two unequal graphs of one hash.
  struct Collision {
    int first, second;
    std::string message;  // the hash and the first difference
  };
  const std::vector<Collision>& collisions() const { return collisions_; }

 private:
  Hash truncated_hash(const Graph& graph) const;

  int hash_bits_;
  std::map<Hash, std::vector<int>> by_hash_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::vector<Collision> collisions_;
};

}  // namespace monograph::ir
