#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// What a rank sends of gradients in a step, over rings, as it would be and as it is.
struct ExchangeSavings {
  int num_gradients = 0;
  int64_t bytes_before = 0, bytes_after = 0;
};

// Makes nodes of exchanges of gradients that are to be compressed: an all_reduce or reduce_scatter
// with the attributes `compress` (ops::Compression::str()) and `gradient` (its name).
//   before: r = all_reduce(g) {compress="qsgd:4", gradient="w"}
//   after:  c, s = levels and scales of g (qsgd_exchange.h)
//           r = sum over ranks of all_gather(c) * all_gather(s)
// Gradients that are complete by then go together. Where that would not be fewer bytes the node
// stays as it was, without the attributes. States beside the model's (ir/state_names.h) are added
// to the graph: seed and step, where random numbers are drawn, and what ranks have not sent yet.
// Remarks: bytes before and after. Keeps: the mean over time of what is exchanged; not the numbers.
ExchangeSavings compress_exchange(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
