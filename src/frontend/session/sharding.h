#pragma once

#include <memory>
#include <vector>

#include "frontend/session/session.h"
#include "frontend/trace/trace.h"
#include "ir/mesh.h"
#include "runtime/mesh_context.h"

namespace monograph::session {

std::vector<trace::State> states_of(const trace::Trace& trace);

// The graph of a finished trace as one rank has it, where states are sharded or on stages of a
// pipeline, or gradients compressed; `mesh` null: as the first rank. Fills in the record's remarks,
// savings and pipeline. UserError where the trace reads values on the host, for a pipeline for
// another mesh, or one that compresses gradients.
std::unique_ptr<ir::Graph> divide_over_ranks(const trace::Trace& trace,
                                             std::unique_ptr<ir::Graph> graph,
                                             const runtime::MeshContext* mesh, TraceRecord& record);

// UserError when the step would make copies of a parameter differ: its gradient is not reduced over
// an axis whose ranks have parts of the batch. A trace that reads values on the host is not judged.
void check_replicas(const trace::Trace& trace, const ir::Graph& graph, const ir::Mesh& mesh);

}  // namespace monograph::session
