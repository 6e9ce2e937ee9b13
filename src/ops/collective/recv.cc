#include "ops/builder.h"
#include "ops/collective/transfer.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  check_collective(context);
  check_peer(context);
  const ir::TensorType& after = context.operands[0];
  if (after.shape.rank() > 0 || !ir::is_floating(after.dtype)) {
    context.fail("operand 'after' is {}: it takes f32[], a number that is made before",
                 after.str());
  }
  const ir::TensorType type{context.attribute<ir::DType>("dtype"),
                            ir::Shape(context.attribute<std::vector<int64_t>>("shape"))};
  if (type.dtype == ir::DType::kBool || type.dtype == ir::DType::kU16) {
    context.fail("{} is not exchanged: convert it to u8 or i32", type.str());
  }
  return {type};
}

// The gradient goes to the sender; what stood before gets the 0 that the send gives.
std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  const ir::Value sent = b.emit("send", {cotangents[0]}, way_back(node));
  return {b.convert(sent, node.operand(0).dtype())};
}

void reference(const ir::Node& node, Literals, std::span<ir::Literal>) {
  check_one_rank(node);
}

ir::Attributes attributes_of(int64_t size, int64_t peer, ir::DType dtype) {
  return {{"axis", std::string("pp")},
          {"size", size},
          {"peer", peer},
          {"shape", std::vector<int64_t>{2, 3}},
          {"dtype", dtype}};
}

std::vector<Sample> samples(bool check_gradient) {
  const SampleOperand token{{ir::DType::kF32, {}}, 0, 0};
  return {{.operands = {token},
           .attributes = attributes_of(1, 0, ir::DType::kF32),
           .check_gradient = check_gradient},
          {.operands = {token},
           .attributes = attributes_of(1, 0, ir::DType::kBF16),
           .check_gradient = false}};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType token{ir::DType::kF32, {}};
  return {{{token}, attributes_of(2, 2, ir::DType::kF32), "peer 2: use 0..1"},
          {{token}, attributes_of(2, 0, ir::DType::kBool), "bool[2,3] is not exchanged"},
          {{{ir::DType::kF32, {4}}},
           attributes_of(2, 0, ir::DType::kF32),
           "operand 'after' is f32[4]: it takes f32[]"}};
}

const std::vector<AttributeSpec> kMore = {
    kPeer, kTag, {"shape", AttributeKind::kInts}, {"dtype", AttributeKind::kDType}};

}  // namespace

// recv(after, axis, size, peer, shape, dtype): what the rank at place `peer` sends
const OpDef recv_op = {
    .name = "recv",
    .doc =
        "What the rank at place peer of the mesh axis sends, of that shape and dtype, once after "
        "is "
        "made. Zeros over an axis of one rank.",
    .operands = {"after"},
    .attributes = collective_attributes(kMore),
    .traits = kCollective,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .samples = [] { return samples(true); },
    .bad_samples = bad_samples,
};

const OpDef recv_start_op = {
    .name = "recv_start",
    .doc = "Begins a recv.",
    .operands = {"after"},
    .attributes = collective_attributes(kMore),
    .traits = kCollective | kStart,
    .infer = infer,
    .reference = reference,
    .samples = [] { return samples(false); },
    .bad_samples = bad_samples,
};

const OpDef recv_done_op = done_op("recv_done");

}  // namespace monograph::ops::defs
