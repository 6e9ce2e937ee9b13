#include "ops/builder.h"
#include "ops/collective/collective.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  check_collective(context);
  check_reduction(context);
  check_compression(context);
  check_divides(context);
  const ir::Shape& shape = context.shape(0);
  const int64_t first = shape[0] / context.attribute<int64_t>("size");
  return {{context.operands[0].dtype, with_first_dim(shape, first)}};
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  const auto& op = node.attribute<std::string>("op");
  if (op != "sum") throw_user_error("[reduce_scatter] op {} has no gradient: use sum", op);
  return {b.emit("all_gather", {cotangents[0]}, same_axis(node))};
}

std::vector<BadSample> bad_samples() {
  const ir::Attributes sum = {{"op", std::string("sum")}};
  std::vector<BadSample> bad = bad_samples_collective(sum);
  const ir::Attributes two = {
      {"axis", std::string("data")}, {"size", int64_t{2}}, {"op", std::string("sum")}};
  bad.push_back({{{ir::DType::kF32, {3, 2}}},
                 two,
                 "f32[3,2] for 2 ranks: the first dim must be a multiple of them"});
  bad.push_back({{{ir::DType::kF32, {}}}, two, "f32[] for 2 ranks"});
  return bad;
}

std::vector<Sample> samples(bool check_gradient) {
  return samples_collective({{"op", std::string("sum")}}, check_gradient);
}

}  // namespace

// reduce_scatter(x, axis, size, op): this rank's part of the sum of x over the ranks
const OpDef reduce_scatter_op = {
    .name = "reduce_scatter",
    .doc =
        "This rank's part, along the first axis, of the sum, max or min of x over the ranks of "
        "the mesh axis.",
    .operands = {"x"},
    .attributes =
        collective_attributes({kUnit, {"op", AttributeKind::kString}, kCompress, kGradient}),
    .traits = kCollective,
    .infer = infer,
    .reference = one_rank_reference,
    .gradient = gradient,
    .placements = [](const DivisionContext& c) { return divide_collective(c, true); },
    .samples = [] { return samples(true); },
    .bad_samples = bad_samples,
};

const OpDef reduce_scatter_start_op = {
    .name = "reduce_scatter_start",
    .doc = "Begins a reduce_scatter.",
    .operands = {"x"},
    .attributes = collective_attributes({kUnit, {"op", AttributeKind::kString}}),
    .traits = kCollective | kStart,
    .infer = infer,
    .reference = one_rank_reference,
    .samples = [] { return samples(false); },
    .bad_samples = bad_samples,
};

const OpDef reduce_scatter_done_op = done_op("reduce_scatter_done");

}  // namespace monograph::ops::defs
