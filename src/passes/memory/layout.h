#pragma once

#include <vector>

#include "ir/program/program.h"
#include "passes/memory/place_states.h"
#include "passes/memory/placement.h"
#include "passes/pass.h"

namespace monograph::passes {

// Persistent segments are one buffer each (offsets into them are final). A scratch buffer lives
// from its first write to its last read; memory assignment gives it an offset.
struct LayoutBuffer {
  ir::Segment segment = ir::Segment::kScratch;
  int64_t num_bytes = 0;
  std::vector<int64_t> parts = {};  // where those begin that are written one by one and read as one
};

struct Layout {
  std::vector<LayoutBuffer> buffers;
  ir::ValueMap<Placement> placements;  // every value of the graph
  std::vector<ir::Value> outputs;      // in order, contiguous in Segment::kOutput
};

// Gives every value a placement: views are strides into their operand, and the parts of `cat` and
// `pack` are written where they belong by whoever makes them (co-location). What cannot be met
// becomes a `clone` with a remark. States lie in `states` (new ones are added in the order of their
// `pack`), and their next values are written over them when all readers are done before.
//   before: a = matmul(x, y); b = permute(a); c = reshape(b)
//   after:  the same; a's strides make c contiguous
// Needs: fuse ran; graph order is the order of execution. Keeps: numbers.
Layout assign_layout(ir::Graph& graph, StateLayout& states, PassContext& context);

}  // namespace monograph::passes
