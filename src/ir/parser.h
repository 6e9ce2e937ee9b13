#pragma once

#include <memory>
#include <string_view>

#include "ir/graph.h"

namespace monograph::ir {

// Reads the text form of a graph (ir/printer.h), also with provenance comments. Types are taken as
// written: the verifier and analysis/validate_ops.h judge them. UserError "source:line:column:
// found
// ..., expected ..." when the text is not of the form.
std::unique_ptr<Graph> parse_graph(std::string_view text, std::string_view source = "graph");

}  // namespace monograph::ir
