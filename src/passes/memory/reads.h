#pragma once

#include <functional>
#include <unordered_map>

#include "ir/graph.h"

namespace monograph::passes {

// Who reads what, for a graph in order of execution.
struct Reads {
  std::unordered_map<const ir::Node*, int> last_of_state;  // id of the last reader of its memory
  ir::ValueMap<int> count;  // operands, outputs and updates; tokens of `after` are not read
};

// `is_state_memory` says of which nodes that are no views the result is the memory of states too.
Reads collect_reads(const ir::Graph& graph,
                    const std::function<bool(const ir::Node&)>& is_state_memory);

// Whether nobody but the one reader of `value` reads its elements, perhaps through views of all of
// them, and a node of the step made them: not an input, a state or a part of something.
bool has_one_reader(const Reads& reads, ir::Value value);

// The operand that a kernel may write its result over, for nobody reads it again; null: none.
ir::Value overwritten_by(const ir::Node& kernel, int result, const Reads& reads);

}  // namespace monograph::passes
