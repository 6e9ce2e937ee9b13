#include "ops/builder.h"
#include "ops/collective/collective.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer_start(const InferContext& context) {
  check_collective(context);
  const auto root = context.attribute<int64_t>("root");
  const auto size = context.attribute<int64_t>("size");
  if (root < 0 || root >= size) context.fail("root {}: use 0..{}", root, size - 1);
  return {context.operands[0]};
}

std::vector<ir::TensorType> infer(const InferContext& context) {
  if (context.operands[1] != ir::TensorType{ir::DType::kI64, {}}) {
    context.fail("operand 'coordinate' is {}: it takes i64[], the rank's place on the axis",
                 context.operands[1].str());
  }
  return infer_start(context);
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  const ir::Value all = b.emit("all_reduce", {cotangents[0]}, same_axis(node, "sum"));
  const auto root = static_cast<double>(node.attribute<int64_t>("root"));
  const ir::Value coordinate = node.operand(1);
  const ir::Value is_root = b.emit("eq", {coordinate, b.scalar(ir::DType::kI64, root)});
  return {b.where(is_root, all, b.scalar(all.dtype(), 0)), {}};
}

std::vector<Sample> samples() {
  std::vector<Sample> samples = samples_collective({{"root", int64_t{0}}}, true);
  for (Sample& sample : samples) sample.operands.push_back({{ir::DType::kI64, {}}, 0, 0});
  return samples;
}

std::vector<BadSample> start_bad_samples() {
  std::vector<BadSample> bad = bad_samples_collective({{"root", int64_t{0}}});
  bad.push_back({{{ir::DType::kF32, {4}}},
                 {{"axis", std::string("data")}, {"size", int64_t{2}}, {"root", int64_t{2}}},
                 "root 2: use 0..1"});
  return bad;
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType x{ir::DType::kF32, {4}};
  const ir::Attributes attributes = {
      {"axis", std::string("data")}, {"size", int64_t{2}}, {"root", int64_t{2}}};
  return {{{x, x}, attributes, "operand 'coordinate' is f32[4]: it takes i64[]"},
          {{x, {ir::DType::kI64, {}}}, attributes, "root 2: use 0..1"}};
}

}  // namespace

// broadcast(x, coordinate, axis, size, root): x of the root. Only the gradient, which is zero on
// the other ranks, reads the coordinate.
const OpDef broadcast_op = {
    .name = "broadcast",
    .doc =
        "The x of rank root of the mesh axis, on each of its ranks. coordinate is the rank's own "
        "place on the axis: the gradient is zero but on the root.",
    .operands = {"x", "coordinate"},
    .attributes = collective_attributes({{"root", AttributeKind::kInt}}),
    .traits = kCollective,
    .infer = infer,
    .reference = one_rank_reference,
    .gradient = gradient,
    .placements = [](const DivisionContext& c) { return divide_collective(c, false); },
    .samples = samples,
    .bad_samples = bad_samples,
};

const OpDef broadcast_start_op = {
    .name = "broadcast_start",
    .doc = "Begins a broadcast of x, in place.",
    .operands = {"x"},
    .attributes = collective_attributes({{"root", AttributeKind::kInt}}),
    .traits = kCollective | kStart | kInPlace,
    .infer = infer_start,
    .reference = one_rank_reference,
    .samples =
        [] {
          return samples_collective({{"root", int64_t{0}}}, false);
        },
    .bad_samples = start_bad_samples,
};

const OpDef broadcast_done_op = done_op("broadcast_done");

}  // namespace monograph::ops::defs
