#include "passes/distribute/qsgd_exchange.h"

namespace monograph::passes {
namespace {

using ir::DType;
using ir::Value;

int64_t num_levels(int64_t bits) {  // on each side of zero
  return (int64_t{1} << (bits - 1)) - 1;
}

int64_t padding(int64_t count) {
  return (kQsgdBucket - count % kQsgdBucket) % kQsgdBucket;
}

}  // namespace

Quantized quantize(ExchangeBuilder& builder, Value x, Value uniform, int64_t bits) {
  ops::Builder& b = builder.build();
  const auto levels = static_cast<double>(num_levels(bits));
  const int64_t num_rows = x.shape()[0], num_buckets = x.shape()[1] / kQsgdBucket;
  const int64_t a_byte = 8 / bits;
  const Value zero = b.scalar(DType::kF32, 0), one = b.scalar(DType::kF32, 1);
  const Value most = b.scalar(DType::kF32, levels);
  const Value buckets = b.reshape(x, {num_rows, num_buckets, kQsgdBucket});
  const Value magnitude = b.emit("abs", {buckets});
  const Value scale = b.amax(magnitude, {2}, true);
  const Value factor = b.where(b.emit("gt", {scale, zero}), b.div(most, scale), zero);
  const Value scaled = b.mul(magnitude, factor);
  // Of a bucket that is not finite any level will do: its scale says so.
  const Value bounded = b.where(b.emit("le", {scaled, most}), scaled, most);
  const Value below = builder.floor(bounded);
  const Value goes_up = b.emit("lt", {uniform, b.sub(bounded, below)});
  const Value level = b.add(below, b.where(goes_up, one, zero));
  const Value is_negative = b.emit("lt", {buckets, zero});
  const Value code = b.add(b.where(is_negative, b.neg(level), level), levels);
  // Byte i of a bucket holds the codes i, i + 512 / a_byte, ...: planes, no neighbours.
  const Value planes = b.reshape(code, {num_rows, num_buckets, a_byte, kQsgdBucket / a_byte});
  Value bytes = builder.slice(planes, 2, 0, 1);
  for (int64_t plane = 1; plane < a_byte; ++plane) {
    const auto weight = static_cast<double>(int64_t{1} << (plane * bits));
    bytes = b.add(bytes, b.mul(builder.slice(planes, 2, plane, plane + 1), weight));
  }
  return {b.reshape(b.convert(bytes, DType::kU8), {num_rows, num_buckets * kQsgdBucket / a_byte}),
          b.reshape(scale, {num_rows, num_buckets})};
}

Value sum_of_quantized(ExchangeBuilder& builder, const Quantized& rows, int64_t bits) {
  ops::Builder& b = builder.build();
  const auto levels = static_cast<double>(num_levels(bits));
  const auto base = static_cast<double>(int64_t{1} << bits);
  const int64_t num_rows = rows.scales.shape()[0], num_buckets = rows.scales.shape()[1];
  const int64_t a_byte = 8 / bits, width = kQsgdBucket / a_byte;
  const Value unit = b.mul(b.reshape(rows.scales, {num_rows, num_buckets, 1}), 1 / levels);
  Value rest = b.convert(b.reshape(rows.levels, {num_rows, num_buckets, width}), DType::kF32);
  std::vector<Value> planes;
  for (int64_t plane = 0; plane < a_byte; ++plane) {
    const bool is_last = plane + 1 == a_byte;
    const Value above = is_last ? Value{} : builder.floor(b.mul(rest, 1 / base));
    const Value code = is_last ? rest : b.sub(rest, b.mul(above, base));
    const Value summed = b.sum(b.mul(b.add(code, -levels), unit), {0}, false);
    planes.push_back(b.reshape(summed, {num_buckets, 1, width}));
    rest = above;
  }
  return b.reshape(builder.cat(std::move(planes), 1), {num_buckets * kQsgdBucket});
}

std::vector<Value> qsgd_all_reduce(const Exchange& exchange, ExchangeBuilder& builder) {
  ops::Builder& b = builder.build();
  const int64_t bits = exchange.compression.bits;
  std::vector<Value> pieces;  // no bucket reaches over two gradients
  int64_t total = 0;
  for (const Exchange::Gradient& gradient : exchange.gradients) {
    const int64_t count = gradient.num_elements(), missing = padding(count);
    pieces.push_back(builder.flat(gradient.value));
    if (missing > 0) pieces.push_back(b.full({DType::kF32, {missing}}, 0));
    total += count + missing;
  }
  const Value x = b.reshape(builder.cat(std::move(pieces)), {1, total});
  const Value uniform =
      builder.uniform(exchange.name_of(exchange.gradients[0]),
                      {1, total / kQsgdBucket, kQsgdBucket}, ExchangeBuilder::Draw::kOfRank);
  const Quantized own = quantize(builder, x, uniform, bits);
  const Quantized all = {builder.all_gather(own.levels), builder.all_gather(own.scales)};
  return builder.unflatten(sum_of_quantized(builder, all, bits), kQsgdBucket);
}

Value qsgd_reduce_scatter(const Exchange& exchange, ExchangeBuilder& builder) {
  ops::Builder& b = builder.build();
  const Exchange::Gradient& gradient = exchange.gradients[0];
  const int64_t bits = exchange.compression.bits, num_rows = exchange.size;
  const int64_t part = gradient.num_elements() / num_rows, missing = padding(part);
  Value x = b.reshape(gradient.value, {num_rows, part});
  if (missing > 0) x = builder.cat({x, b.full({DType::kF32, {num_rows, missing}}, 0)}, 1);
  const Value uniform = builder.uniform(exchange.name_of(gradient),
                                        {num_rows, (part + missing) / kQsgdBucket, kQsgdBucket},
                                        ExchangeBuilder::Draw::kOfRank);
  const Quantized own = quantize(builder, x, uniform, bits);
  const Quantized mine = {builder.all_to_all(own.levels), builder.all_to_all(own.scales)};
  return builder.slice(sum_of_quantized(builder, mine, bits), 0, 0, part);
}

}  // namespace monograph::passes
