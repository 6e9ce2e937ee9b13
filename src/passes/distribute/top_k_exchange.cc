#include "passes/distribute/top_k_exchange.h"

#include <algorithm>
#include <cmath>

#include "ir/state_names.h"

namespace monograph::passes {
namespace {

using ir::DType;
using ir::Value;

// f32[num_elements]: the sum of the values at each index, added in their order.
Value scatter(ops::Builder& b, Value values, Value indices, int64_t num_elements) {
  ir::Node* sorted = b.emit_node("sort_ids", {indices}, {{"num_ids", num_elements}});
  const int64_t count = values.type().num_elements();
  const Value sums =
      b.emit("segment_sum", {b.reshape(values, {count, 1}), sorted->result(0), sorted->result(1)});
  return b.reshape(sums, {num_elements});
}

Value gather(ops::Builder& b, Value x, Value indices) {
  const int64_t count = x.type().num_elements();
  const Value found = b.emit("embedding", {b.reshape(x, {count, 1}), indices});
  return b.reshape(found, indices.shape());
}

Value choose(ExchangeBuilder& builder, Value rows, int64_t k) {
  ops::Builder& b = builder.build();
  return Value{b.emit_node("top_k", {b.emit("abs", {rows})}, {{"k", k}}), 1};
}

// x + what was not sent before; the state that keeps that.
struct Accumulated {
  Value state, total;  // total: f32[num_elements]
};

Accumulated accumulate(ExchangeBuilder& builder, const Exchange::Gradient& gradient) {
  const Value state = builder.state(ir::kResidualPrefix, gradient, gradient.value.type());
  return {state, builder.flat(builder.build().add(gradient.value, state))};
}

void keep_indices(ExchangeBuilder& builder, const Exchange::Gradient& gradient, Value indices) {
  builder.update(builder.state(ir::kIndicesPrefix, gradient, indices.type()), indices);
}

}  // namespace

int64_t num_sent(int64_t count, double fraction) {
  return std::clamp<int64_t>(std::llround(fraction * static_cast<double>(count)), 1, count);
}

std::vector<Value> top_k_all_reduce(const Exchange& exchange, ExchangeBuilder& builder) {
  ops::Builder& b = builder.build();
  std::vector<Value> states, totals, values, indices;
  int64_t num_elements = 0;
  for (const Exchange::Gradient& gradient : exchange.gradients) {
    const auto [state, total] = accumulate(builder, gradient);
    const int64_t count = gradient.num_elements();
    const Value chosen = choose(builder, total, num_sent(count, exchange.compression.fraction));
    keep_indices(builder, gradient, chosen);
    states.push_back(state);
    totals.push_back(total);
    values.push_back(gather(b, total, chosen));
    indices.push_back(num_elements == 0 ? chosen
                                        : b.add(chosen, static_cast<double>(num_elements)));
    num_elements += count;
  }
  const Value own_values = builder.cat(values), own_indices = builder.cat(indices);
  const Value sent = scatter(b, own_values, own_indices, num_elements);
  const std::vector<Value> sent_of = builder.unflatten(sent);
  for (size_t i = 0; i < states.size(); ++i) {
    const Value total = b.reshape(totals[i], states[i].shape());
    builder.update(states[i], b.sub(total, sent_of[i]));
  }
  const Value all_values = builder.all_gather(own_values);
  const Value all_indices = builder.all_gather(own_indices);
  return builder.unflatten(scatter(b, all_values, all_indices, num_elements));
}

Value top_k_reduce_scatter(const Exchange& exchange, ExchangeBuilder& builder) {
  ops::Builder& b = builder.build();
  const Exchange::Gradient& gradient = exchange.gradients[0];
  const int64_t count = gradient.num_elements(), num_rows = exchange.size;
  const int64_t part = count / num_rows;
  const auto [state, total] = accumulate(builder, gradient);
  const Value chosen = choose(builder, b.reshape(total, {num_rows, part}),
                              num_sent(part, exchange.compression.fraction));
  const Value row = b.emit(
      "iota", {},
      {{"shape", std::vector<int64_t>{num_rows, 1}}, {"axis", int64_t{0}}, {"dtype", DType::kI32}});
  const Value in_all = builder.flat(b.add(chosen, b.mul(row, static_cast<double>(part))));
  keep_indices(builder, gradient, in_all);
  const Value values = b.reshape(gather(b, total, in_all), chosen.shape());
  builder.update(state, b.reshape(b.sub(total, scatter(b, values, in_all, count)), state.shape()));
  const Value mine = builder.all_to_all(values);
  const Value places = builder.flat(builder.all_to_all(chosen));
  return scatter(b, mine, places, part);
}

}  // namespace monograph::passes
