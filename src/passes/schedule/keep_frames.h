#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Puts the nodes of a stage of a pipeline back in the order of its frames (analysis/walls.h), in
// which all ranks send and receive so that none waits for ever. A recv is waited for where what it
// gives is first read; a send, whose buffer lives until then, a few frames later.
//   before: b = f(r); s = send_start(x); t = send_done(s); r = recv_done(recv_start())  [any order]
//   after:  s = send_start(x); q = recv_start(); r = recv_done(q); b = f(r); t = send_done(s)
// Needs: overlap_collectives, which moves starts and dones over walls. Keeps: all but the order;
// InternalError when a pass has made something of one frame need a transfer behind it.
bool keep_frames(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
