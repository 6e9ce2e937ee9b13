#pragma once

#include "analysis/check_stages.h"
#include "frontend/session/agreement.h"
#include "frontend/session/executable.h"
#include "ir/mesh.h"

namespace monograph::session {

// Only a graph with collectives must be the same on all ranks.
bool has_collectives(const ir::Graph& graph);

// Versions of what computes, options, mesh, graph and Programs. `builds`: of the parts of the
// graph; null for the interpreter.
Statement make_statement(const ir::Graph& graph, const std::vector<const Build*>& builds,
                         const CompileOptions& options, const ir::Mesh& mesh);

// What must be equal on ranks of all stages of a pipeline: all but graph and Programs.
Statement part_of_all_stages(const Statement& statement);

// The exchanges over the pipeline's axis, as they run.
std::vector<analysis::StageCall> stage_calls(const ir::Graph& graph,
                                             const std::vector<const Build*>& builds);

}  // namespace monograph::session
