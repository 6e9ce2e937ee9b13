#include "ops/builder.h"
#include "ops/collective/collective.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  check_collective(context);
  const ir::Shape& shape = context.shape(0);
  if (shape.rank() == 0) context.fail("a scalar: reshape it to [1]");
  const int64_t first = shape[0] * context.attribute<int64_t>("size");
  return {{context.operands[0].dtype, with_first_dim(shape, first)}};
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  return {b.emit("reduce_scatter", {cotangents[0]}, same_axis(node, "sum"))};
}

std::vector<BadSample> bad_samples() {
  std::vector<BadSample> bad = bad_samples_collective({});
  bad.push_back({{{ir::DType::kF32, {}}},
                 {{"axis", std::string("data")}, {"size", int64_t{2}}},
                 "a scalar: reshape it to [1]"});
  return bad;
}

}  // namespace

// all_gather(x, axis, size): every rank's x, one after the other along the first axis
const OpDef all_gather_op = {
    .name = "all_gather",
    .doc = "The x of every rank of the mesh axis, one after the other along the first axis.",
    .operands = {"x"},
    .attributes = collective_attributes({kUnit, kWindow}),
    .traits = kCollective,
    .infer = infer,
    .reference = one_rank_reference,
    .gradient = gradient,
    .placements = [](const DivisionContext& c) { return divide_collective(c, true); },
    .samples = [] { return samples_collective({}, true); },
    .bad_samples = bad_samples,
};

const OpDef all_gather_start_op = {
    .name = "all_gather_start",
    .doc = "Begins an all_gather.",
    .operands = {"x"},
    .attributes = collective_attributes({kUnit, kWindow}),
    .traits = kCollective | kStart,
    .infer = infer,
    .reference = one_rank_reference,
    .samples = [] { return samples_collective({}, false); },
    .bad_samples = bad_samples,
};

const OpDef all_gather_done_op = done_op("all_gather_done");

}  // namespace monograph::ops::defs
