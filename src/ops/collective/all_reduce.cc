#include "ops/builder.h"
#include "ops/collective/collective.h"
#include "ops/registry.h"
#include "ops/shape/packing.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  check_collective(context);
  check_reduction(context);
  check_compression(context);
  return {context.operands[0]};
}

// The loss of all ranks together depends on x through every rank's result.
std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  const auto& op = node.attribute<std::string>("op");
  if (op != "sum") throw_user_error("[all_reduce] op {} has no gradient: use sum", op);
  return {b.emit("all_reduce", {cotangents[0]}, same_axis(node, "sum"))};
}

std::vector<BadSample> bad_samples() {
  std::vector<BadSample> bad = bad_samples_collective({{"op", std::string("sum")}});
  bad.push_back({{{ir::DType::kF32, {4}}},
                 {{"axis", std::string("data")}, {"size", int64_t{2}}, {"op", std::string("mean")}},
                 "op 'mean': use sum, max or min (a mean is a sum and a multiplication)"});
  return bad;
}

int64_t packed_elements(const InferContext& context) {
  int64_t total = 0;
  const int64_t alignment = alignment_attribute(context);
  for (const ir::TensorType& x : context.operands) {
    if (x.dtype != context.operands[0].dtype) {
      context.fail("operands {} and {}: all must have one dtype", context.operands[0].str(),
                   x.str());
    }
    total += padded_elements(x.num_elements(), alignment);
  }
  return total;
}

std::vector<ir::TensorType> infer_start(const InferContext& context) {
  check_collective(context);
  check_reduction(context);
  const int64_t total = packed_elements(context);
  const auto begin = context.attribute<int64_t>("begin"),
             count = context.attribute<int64_t>("count");
  if (begin < 0 || count < 0 || begin + count > total) {
    context.fail("elements {} to {} of a range of {}: stay inside", begin, begin + count, total);
  }
  return {{context.operands[0].dtype, {count}}};
}

void start_reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  check_one_rank(node);
  copy_range(node, operands, results[0]);
}

ir::Attributes range(int64_t size, int64_t begin, int64_t count) {
  return {{"axis", std::string("data")}, {"size", size},
          {"op", std::string("sum")},    {"alignment", int64_t{4}},
          {"begin", int64_t{begin}},     {"count", count}};
}

std::vector<Sample> start_samples() {
  const SampleOperand x{{ir::DType::kF32, {2, 3}}}, y{{ir::DType::kF32, {5}}};
  return {{.operands = {x, y}, .attributes = range(1, 0, 16), .check_gradient = false},
          {.operands = {x, y}, .attributes = range(1, 4, 8), .check_gradient = false}};
}

std::vector<BadSample> start_bad_samples() {
  const ir::TensorType x{ir::DType::kF32, {2, 3}};
  return {{{x}, range(2, 4, 8), "elements 4 to 12 of a range of 8: stay inside"},
          {{x, {ir::DType::kF64, {2}}}, range(2, 0, 4), "all must have one dtype"},
          {{}, range(2, 0, 4), "0 operands given: it takes at least 1 (xs...)"}};
}

}  // namespace

// all_reduce(x, axis, size, op): the sum (max, min) of x over the ranks, on each of them
const OpDef all_reduce_op = {
    .name = "all_reduce",
    .doc = "The sum, max or min of x over the ranks of the mesh axis, on each of them.",
    .operands = {"x"},
    .attributes =
        collective_attributes({kUnit, {"op", AttributeKind::kString}, kCompress, kGradient}),
    .traits = kCollective,
    .infer = infer,
    .reference = one_rank_reference,
    .gradient = gradient,
    .placements = [](const DivisionContext& c) { return divide_collective(c, false); },
    .samples =
        [] {
          return samples_collective({{"op", std::string("sum")}}, true);
        },
    .bad_samples = bad_samples,
};

// all_reduce_start(xs..., begin, count): of elements begin .. begin + count of pack(xs, alignment)
const OpDef all_reduce_start_op = {
    .name = "all_reduce_start",
    .doc =
        "Begins an all_reduce, in place, of count elements from begin in the range that pack(xs, "
        "alignment) is.",
    .operands = {"xs..."},
    .attributes = collective_attributes({kUnit,
                                         {"op", AttributeKind::kString},
                                         {"alignment", AttributeKind::kInt},
                                         {"begin", AttributeKind::kInt},
                                         {"count", AttributeKind::kInt}}),
    .traits = kCollective | kStart | kInPlace,
    .infer = infer_start,
    .reference = start_reference,
    .samples = start_samples,
    .bad_samples = start_bad_samples,
};

const OpDef all_reduce_done_op = done_op("all_reduce_done");

}  // namespace monograph::ops::defs
