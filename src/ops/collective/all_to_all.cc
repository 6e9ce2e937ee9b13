#include "ops/builder.h"
#include "ops/collective/collective.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  check_collective(context);
  check_divides(context);
  return {context.operands[0]};
}

// What came from rank r goes back to it.
std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  return {b.emit("all_to_all", {cotangents[0]}, same_axis(node))};
}

std::vector<BadSample> bad_samples() {
  std::vector<BadSample> bad = bad_samples_collective({});
  const ir::Attributes two = {{"axis", std::string("data")}, {"size", int64_t{2}}};
  bad.push_back({{{ir::DType::kF32, {3, 2}}},
                 two,
                 "f32[3,2] for 2 ranks: the first dim must be a multiple of them"});
  return bad;
}

}  // namespace

// all_to_all(x, axis, size): part r of x goes to rank r, and part r of the result comes from it
const OpDef all_to_all_op = {
    .name = "all_to_all",
    .doc =
        "Part r of x, cut along the first axis, goes to rank r of the mesh axis; part r of the "
        "result is what came from rank r.",
    .operands = {"x"},
    .attributes = collective_attributes({}),
    .traits = kCollective,
    .infer = infer,
    .reference = one_rank_reference,
    .gradient = gradient,
    .placements = [](const DivisionContext& c) { return divide_collective(c, true); },
    .samples = [] { return samples_collective({}, true); },
    .bad_samples = bad_samples,
};

const OpDef all_to_all_start_op = {
    .name = "all_to_all_start",
    .doc = "Begins an all_to_all.",
    .operands = {"x"},
    .attributes = collective_attributes({}),
    .traits = kCollective | kStart,
    .infer = infer,
    .reference = one_rank_reference,
    .samples = [] { return samples_collective({}, false); },
    .bad_samples = bad_samples,
};

const OpDef all_to_all_done_op = done_op("all_to_all_done");

}  // namespace monograph::ops::defs
