#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ir/node_bytes.h"
#include "ir/verifier.h"

namespace monograph::analysis {

// Each node against its op: registered, arity, attributes, dtypes, shapes and the result types that
// the op infers (V1.20 to V1.23, docs/validation.md), bodies of fused nodes included. The structure
// must be sound (ir::verify): operands are read. Empty when all is well.
std::vector<ir::Violation> validate_ops(const ir::Graph& graph);

// The same of many graphs that have much in common, as after each pass: what an op infers depends
// on the operands' types and the attributes alone, so a node that agrees in all of these, and in
// its own types, with one that was right is right. Equal layers are checked once.
class OpValidator {
 public:
  std::vector<ir::Violation> run(const ir::Graph& graph);

 private:
  bool is_known(const ir::Node& node);  // sets key_

  struct TextHash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  std::unordered_set<std::string, TextHash, std::equal_to<>> right_;  // keys of nodes
  ir::NodeBytes key_;  // of one node: op, operands' types, attributes, types
};

}  // namespace monograph::analysis
