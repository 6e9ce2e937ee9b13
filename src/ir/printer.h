#pragma once

#include <string>
#include <unordered_map>

#include "ir/graph.h"

// The text form of a graph. `parse_graph` (ir/parser.h) reads it back to an equal graph of equal
// hash:
//
//   graph @step {
//     %tokens = input "tokens" : i64[8,64]
//     %0 = state "wte.weight" {role="parameter"} : f32[256,128]
//     %1 = embedding(%0, %tokens) : f32[8,64,128]  // gpt.h:31 in wte
//     %2, %3 = split_with_sizes(%1) {axis=2, sizes=[64,64]} : f32[8,64,64], f32[8,64,64]
//     backward %4 = fused(%2, %3) : f32[8,64,64] @fused_mul {
//       %a = input "a" : f32[8,64,64]
//       %b = input "b" : f32[8,64,64]
//       %0 = mul(%a, %b) : f32[8,64,64]
//       return %0
//     }
//     return loss=%4
//     update %0 = %5
//   }
//
// A node without a phase before it is of the forward phase. Attributes by kind: `true`, `3`, `0.5`
// (also `inf`, `nan`), `"text"`, `[1,2]`, `f32`, shapes `([2,3], [])`.
namespace monograph::ir {

// What each value of a graph is called in its text: the name of an input that is a word, otherwise
// numbers in order. Valid until the graph changes.
class ValueNames {
 public:
  explicit ValueNames(const Graph& graph);
  // "%12"; "%?" for a value that is not of the graph.
  std::string operator()(Value value) const;

 private:
  std::unordered_map<const Node*, std::string> words_;
  std::unordered_map<const Node*, int> first_numbers_;
};

struct PrintOptions {
  bool provenance = false;  // file, line and scope of each node, as a comment
};

// Prints any graph, also one that the verifier refuses.
std::string to_text(const Graph& graph, PrintOptions options = {});

// One node as it stands in the text of its graph: "%4 = mul(%2, %3) : f32[8,64,64]", without body.
std::string to_text(const Node& node, const ValueNames& names);

std::string to_text(const Attribute& attribute);

}  // namespace monograph::ir
