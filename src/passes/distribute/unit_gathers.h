#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "ir/flat_unit.h"
#include "ops/builder.h"
#include "passes/pass.h"

namespace monograph::passes {

// Gives the parameters of sharded units, as a whole, to the nodes that read them: one gather for
// each unit and window. A window is one way over the model: the forward pass, the backward pass (of
// a micro-batch); a unit that is not regathered has one window. Where the graph reads parameters of
// a unit only as bf16, the parts are narrowed and half the bytes gathered:
//   before: w = state "w"; c = convert(w) : bf16; y = matmul(x, c)
//   after:  p = convert(state "flat.h.0") : bf16; c = unpack(all_gather(p)); y = matmul(x, c)
class UnitGathers {
 public:
  // `before`: the graph whose nodes will be visited.
  UnitGathers(const ir::Graph& before, ops::Builder& build, std::span<const ir::FlatStates> states,
              PassContext& context);

  // Begins the visit of a node of the graph before.
  void enter(const ir::Node& node);
  // Whether the node is a state of a unit, or depends on one alone: then it is made when, and for
  // each window in which, something reads it.
  bool takes(ir::Node& node);
  bool is_unit_value(ir::Value value) const { return lazy_.contains(value); }
  // The value in the present window.
  ir::Value whole(ir::Value value);

  // The part that this rank keeps.
  ir::Value shard(const ir::FlatStates& states);
  // The states, and the state's place among them; none: it is not of a unit.
  std::optional<std::pair<const ir::FlatStates*, int>> find(const ir::Node& state) const;
  // The states that the node packs, all and in order; null: it packs others.
  const ir::FlatStates* packed_states(const ir::Node& pack) const;

 private:
  using Key = std::pair<const ir::Node*, int>;  // node of the graph before and window
  using Users = ir::ValueMap<std::vector<ir::Node*>>;
  void find_dtypes(const ir::Graph& before);
  bool is_read_narrow(ir::Value value, const Users& users, const ir::ValueSet& roots) const;
  int window_of(const ir::FlatStates& states) const;
  const ir::FlatStates& states_under(ir::Value value) const;
  ir::Node* gathered(const ir::FlatStates& states);

  ops::Builder& build_;
  PassContext& context_;
  std::unordered_map<std::string, std::pair<const ir::FlatStates*, int>> homes_;  // by state name
  std::unordered_map<const ir::FlatStates*, ir::DType> dtypes_;  // in which they are gathered
  std::unordered_map<const ir::FlatStates*, ir::Value> shards_;
  ir::ValueSet lazy_;
  ir::Phase phase_ = ir::Phase::kForward;
  int window_ = 0;
  std::map<std::pair<const ir::FlatStates*, int>, ir::Node*> gathers_;  // the unpack of each
  std::map<Key, ir::Node*> made_;
};

}  // namespace monograph::passes
