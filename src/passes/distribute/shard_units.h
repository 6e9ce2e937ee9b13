#pragma once

#include <memory>
#include <span>

#include "ir/flat_unit.h"
#include "passes/pass.h"

namespace monograph::passes {

// Turns a step that is replicated over an axis into one in which each rank keeps its part of the
// flat units (Rajbhandari et al., "ZeRO", 2020; as a rewrite of the replicated graph: Xu et al.,
// "Automatic cross-replica sharding of weight update in data-parallel training", 2020).
//   before: w = state "w"; y = matmul(x, w); ...; g = all_reduce(pack(dw)); p = pack(w);
//           w' = unpack(sub(p, g)); update w = w'
//   after:  s = state "flat.h.0"; w = unpack(all_gather(s)); y = matmul(x, w); ...;
//           g = reduce_scatter(cat(dw)); s' = sub(s, g); update s = s'
// What a parameter alone decides (its transpose, its bf16 copy) is made from each gather anew.
// Where the unit is regathered, the backward pass has a gather of its own, and no value of the
// forward one. Everything else that reads a part of a range (a norm, decay by position) works on
// the parts: sums are completed over the axis. UserError when gradients of a unit were not reduced
// over the axis, or one of its states is updated otherwise than as a whole. Remarks: why each
// collective is there. Keeps: numbers, but for the order of sums.
std::unique_ptr<ir::Graph> shard_units(std::unique_ptr<ir::Graph> graph,
                                       std::span<const ir::FlatStates> states,
                                       PassContext& context);

}  // namespace monograph::passes
