#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "diagnose/compile/compile_log.h"

namespace monograph::diagnose {

// True for the first line of a graph-break message of any version.
bool begins_graph_break(std::string_view message);

// Parses a whole message, its lines joined by "\n". rank, compile_id and evidence stay unset.
GraphBreak parse_graph_break(std::string_view message);

// Lines `File "F", line N, in f` and the code below them, outermost first.
std::vector<SourceFrame> parse_stack(std::string_view text);

// "Unsupported: builtin: print [<class 'torch...ConstantVariable'>]" ->
// "builtin: print [ConstantVariable]"
std::string plain_reason(std::string_view reason);

// Where a person would look: the innermost frame in code of theirs; where tracing stopped if there
// is none.
SourceFrame user_place(const GraphBreak& graph_break);

// True if the break lies in PyTorch's own wrappers (DDP, FSDP): nobody's code to change.
bool is_internal(const GraphBreak& graph_break);

// What to do about it. Falls back on the hints that newer versions print.
std::string break_advice(const GraphBreak& graph_break);

}  // namespace monograph::diagnose
