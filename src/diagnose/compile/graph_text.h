#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace monograph::diagnose {

// One statement of a printed graph.
struct GraphNode {
  std::string text;     // as printed, without the trailing "x = None"
  std::string op;       // what is called: "torch.ops.aten.mm.default", "h.norm"
  std::uint64_t hash;   // of the operation, its type and, through them, its operands
  std::uint64_t shape;  // as `hash`, numbers masked: equal if only constants differ
  std::string file;     // user code, from the comment above; may be empty
  int line = 0;
  std::string function;
  std::string code;
  bool is_collective = false;
};

// A graph in a form that does not depend on the rank that printed it. Left out of the hashes:
// device indices, object ids, addresses, folders, names of values, names of process groups (their
// pattern is kept) and of symbols, the order of sets.
struct NormalGraph {
  std::vector<GraphNode> nodes;        // without inputs
  std::vector<std::string> inputs;     // "L_x_: f32[8, 64]"
  std::uint64_t hash = 0;              // of the nodes in their order
  std::uint64_t unordered_hash = 0;    // of the nodes in any order
  std::uint64_t collectives_hash = 0;  // of the collectives in their order
};

// Parses what torch.fx prints as a module's code.
NormalGraph parse_graph(std::string_view text);

// Equal up to an order of statements that changes no collective's place.
bool is_same_graph(const NormalGraph& a, const NormalGraph& b);

// The first statement at which two graphs part: an index into both, which may be one past the end.
std::size_t first_difference(const NormalGraph& a, const NormalGraph& b);

// Whether the graphs have the same operations and differ in numbers only: shapes or constants.
bool differs_in_numbers_only(const NormalGraph& a, const NormalGraph& b);

// "cuda:3" -> "cuda", 0x7f.. and long numbers -> "N", set elements sorted.
std::string normal_text(std::string_view text);

}  // namespace monograph::diagnose
