#include "ops/builder.h"
#include "ops/collective/transfer.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

const ir::TensorType kToken{ir::DType::kF32, {}};

std::vector<ir::TensorType> infer(const InferContext& context) {
  check_collective(context);
  check_peer(context);
  return {kToken};
}

// What the other side's gradient of its recv sends back, once this was sent.
std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value>) {
  const ir::TensorType& x = node.operand(0).type();
  if (!ir::is_floating(x.dtype)) return {{}};
  ir::Attributes attributes = way_back(node);
  attributes["shape"] = x.shape.dims();
  attributes["dtype"] = x.dtype;
  return {b.emit("recv", {node.result()}, std::move(attributes))};
}

void reference(const ir::Node& node, Literals, std::span<ir::Literal>) {
  check_one_rank(node);
}

std::vector<Sample> samples(bool check_gradient) {
  return samples_collective({{"peer", int64_t{0}}}, check_gradient);
}

std::vector<BadSample> bad_samples() {
  std::vector<BadSample> bad = bad_samples_collective({{"peer", int64_t{0}}});
  bad.push_back({{{ir::DType::kF32, {4}}},
                 {{"axis", std::string("pp")}, {"size", int64_t{2}}, {"peer", int64_t{2}}},
                 "peer 2: use 0..1"});
  return bad;
}

}  // namespace

// send(x, axis, size, peer): x goes to the rank at place `peer`; 0
const OpDef send_op = {
    .name = "send",
    .doc =
        "Sends x to the rank at place peer of the mesh axis, whose recv takes it; what it gives is "
        "0, once x was sent. Nothing is sent over an axis of one rank.",
    .operands = {"x"},
    .attributes = collective_attributes({kPeer, kTag}),
    .traits = kCollective,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .samples = [] { return samples(true); },
    .bad_samples = bad_samples,
};

const OpDef send_start_op = {
    .name = "send_start",
    .doc = "Begins a send.",
    .operands = {"x"},
    .attributes = collective_attributes({kPeer, kTag}),
    .traits = kCollective | kStart,
    .infer = infer,
    .reference = reference,
    .samples = [] { return samples(false); },
    .bad_samples = bad_samples,
};

const OpDef send_done_op = done_op("send_done");

}  // namespace monograph::ops::defs
