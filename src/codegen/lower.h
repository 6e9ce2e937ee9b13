#pragma once

#include <span>
#include <vector>

#include "ir/device_spec.h"
#include "ir/graph.h"
#include "ir/loop/loop.h"

namespace monograph::codegen {

// A Loop and its traffic. `bytes_moved` counts what the loop loads and stores as written: each
// distinct element once while a row stays in cache, once a sweep when it does not, and partial
// results twice. `bytes_least` counts each distinct element of each operand and result once.
struct LoweredKernel {
  ir::Loop loop;  // buffers: the operands, the results, then a workspace if there is one
  std::vector<int64_t> scalars;  // of this launch: Philox streams, which differ between layers
  int64_t bytes_moved = 0;
  int64_t bytes_least = 0;
};

// What a kernel is lowered for.
struct LoweringTarget {
  ir::DeviceSpec device = {};
  // GPUs: bytes that the address of each operand, then of each result, is a multiple of. Empty:
  // unknown.
  std::vector<int64_t> alignments = {};
  // The same kernel at other sizes, whose schedule is taken; null: the best for these sizes.
  const ir::Loop* like = nullptr;
};

// Lowers the body of a fused node. Strides are in elements, one list an operand and a result; the
// address of a buffer is that of the value's first element.
LoweredKernel lower_kernel(const ir::Graph& body,
                           std::span<const std::vector<int64_t>> operand_strides,
                           std::span<const std::vector<int64_t>> result_strides,
                           const LoweringTarget& target = {});

}  // namespace monograph::codegen
