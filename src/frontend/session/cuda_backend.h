#pragma once

#include <functional>
#include <memory>
#include <string>

#include "frontend/session/executable.h"
#include "frontend/session/state_storage.h"

// Backend cuda. Built without the CUDA headers, or run without a GPU, each of these is a UserError
// that says in one line what is missing.
namespace monograph::session {

// Storage of states on the GPU of this rank: that of its number among the ranks of this host, or
// the only one that the process sees.
std::unique_ptr<StateStorage> make_cuda_states(int local_rank);

// `states`: made by make_cuda_states; must outlive the executable. `mesh`: null for one rank.
std::unique_ptr<Executable> make_cuda(const ir::Graph& graph, StateStorage& states,
                                      const CompileOptions& options, Mesh mesh);

// Begins to record what the GPU does. Calling what is returned ends it, writes the timeline to a
// file (Perfetto opens it) and returns a summary in a few lines: busy share, gaps, kernels.
std::function<std::string(const std::string& path)> start_gpu_timeline();

}  // namespace monograph::session
