#pragma once

#include "passes/distribute/exchange_builder.h"

namespace monograph::passes {

// The largest elements by magnitude, with error feedback (Stich et al., "Sparsified SGD with
// memory", 2018; Lin et al., "Deep gradient compression", 2017): of e' = e + x, with what was not
// sent before, a rank sends the k = fraction * n (at least one) largest and keeps the rest. The
// elements are chosen anew in each step. Values and indices of all ranks are added in the order of
// ranks, so that all get the same bits.

// The sum over the ranks of what they send of each gradient; k of each gradient.
std::vector<ir::Value> top_k_all_reduce(const Exchange& exchange, ExchangeBuilder& builder);
// This rank's part of that of the only gradient, f32[ranks * n]; k of each part.
ir::Value top_k_reduce_scatter(const Exchange& exchange, ExchangeBuilder& builder);

// How many of `count` elements are sent.
int64_t num_sent(int64_t count, double fraction);

}  // namespace monograph::passes
