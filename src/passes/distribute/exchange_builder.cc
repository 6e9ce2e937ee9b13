#include "passes/distribute/exchange_builder.h"

#include "base/hash.h"
#include "ir/mesh.h"
#include "ir/state_names.h"
#include "ops/collective/collective.h"

namespace monograph::passes {

using ir::DType;
using ir::Value;

Value ExchangeBuilder::collective(std::string_view op, Value x, std::string_view reduction) {
  ir::Attributes attributes = {{"axis", exchange_.axis}, {"size", exchange_.size}};
  if (!reduction.empty()) attributes["op"] = std::string(reduction);
  ir::Node* node = build_.emit_node(op, {x}, attributes);
  sent_bytes_ += ops::collective_step(*node).sent_bytes();
  return node->result();
}

Value ExchangeBuilder::placeholder(const std::string& name, ir::TensorType type) {
  if (ir::Node* known = build_.graph().find_placeholder(name)) return known->result();
  return build_.graph().add_state(name, std::move(type), ir::StateRole::kBuffer)->result();
}

Value ExchangeBuilder::state(std::string_view prefix, const Exchange::Gradient& gradient,
                             ir::TensorType type) {
  return placeholder(std::string(prefix) + exchange_.name_of(gradient), std::move(type));
}

Value ExchangeBuilder::uniform(const std::string& stream, const ir::Shape& shape, Draw draw) {
  const ir::TensorType scalar{DType::kI64, {}};
  const Value seed = placeholder(std::string(ir::kSeedName), scalar);
  const Value step = placeholder(std::string(ir::kStepName), scalar);
  const Value part =
      draw == Draw::kOfAll
          ? build_.scalar(DType::kI64, 0)
          : placeholder(fmt::format("{}{}", ir::kCoordinatePrefix, exchange_.axis), scalar);
  if (!build_.graph().update_of(step.node)) update(step, build_.add(step, 1.0));
  // Fixed for all time, for it decides the random numbers of a run.
  const auto number = static_cast<uint32_t>(hash_of("exchange:" + stream).low);
  return build_.emit("philox_uniform", {seed, step, part},
                     {{"shape", shape.dims()}, {"stream", int64_t{number}}});
}

Value ExchangeBuilder::cat(std::vector<Value> parts, int64_t axis) {
  return parts.size() == 1 ? parts[0] : build_.emit("cat", std::move(parts), {{"axis", axis}});
}

Value ExchangeBuilder::slice(Value x, int64_t axis, int64_t start, int64_t end) {
  if (start == 0 && end == x.shape()[static_cast<int>(axis)]) return x;
  return build_.emit("slice", {x}, {{"axis", axis}, {"start", start}, {"end", end}});
}

Value ExchangeBuilder::floor(Value x) {
  return build_.convert(build_.convert(x, DType::kI32), x.dtype());
}

std::vector<Value> ExchangeBuilder::unflatten(Value flat, int64_t alignment) {
  std::vector<Value> result;
  int64_t begin = 0;
  for (const Exchange::Gradient& gradient : exchange_.gradients) {
    const int64_t count = gradient.num_elements();
    result.push_back(build_.reshape(slice(flat, 0, begin, begin + count), gradient.value.shape()));
    begin += (count + alignment - 1) / alignment * alignment;
  }
  return result;
}

}  // namespace monograph::passes
