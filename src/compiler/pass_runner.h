#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/lineage.h"
#include "compiler/pipeline.h"
#include "ir/device_spec.h"

namespace monograph::compiler {

struct PassOptions {
  std::vector<std::string> disabled = {};  // names of passes, all applications of each
  int stop_after = -1;                     // optional applications to run, to bisect; -1: all
  std::string dump_dir = {};     // "03.fold_constants.before.txt" and ".after.txt"; empty: none
  bool verify = true;            // after each pass that changed the graph
  ir::LinkModel link = {};       // of collectives
  ir::DeviceSpec device = {};    // what the step is compiled for
  bool deterministic = true;     // two runs of a step on a GPU give the same bits
  int64_t loss_chunk_bytes = 0;  // see chunk_loss_head; 0: what suits the device
  bool records_lineage = false;  // which node became which (see lineage.h)
  std::function<void(std::string_view)> on_begin = {};  // told the name of each pass that begins
};

// One application of a pass, as it went.
struct PassRecord {
  std::string name;
  int application = 0;  // its place in the pipeline, from 0
  bool changed = false;
  int nodes_before = 0, nodes_after = 0;
  int64_t duration_ns = 0;  // the pass alone, without verification and dumps
};

// Runs the steps in order. UserError when an option names no pass (the message lists them) or the
// dumps cannot be written. InternalError when a pass claims to have changed the graph and has not,
// or the reverse, leaves a graph that the verifier or the ops refuse, or fails itself; the message
// names the file that holds the graph. `lineage`: null, or records each application. `given`: an
// equal graph that stays as it is, to make again what a pass that fails was given; null: a copy.
std::vector<PassRecord> run_passes(ir::Graph& graph, passes::PassContext& context,
                                   const PassOptions& options,
                                   std::span<const PipelineStep> steps = pipeline(),
                                   LineageRecorder* lineage = nullptr,
                                   const ir::Graph* given = nullptr);

}  // namespace monograph::compiler
