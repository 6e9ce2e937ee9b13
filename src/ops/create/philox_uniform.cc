#include "base/philox.h"

#include "ops/create/create.h"
#include "ops/registry.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  for (int i = 0; i < 3; ++i) {
    if (context.operands[i] == ir::TensorType{ir::DType::kI64, {}}) continue;
    context.fail("operand '{}' is {}: it takes i64[], a scalar", context.op.operands[i],
                 context.operands[i].str());
  }
  const auto stream = context.attribute<int64_t>("stream");
  if (stream < 0 || stream > UINT32_MAX) {
    context.fail("stream {} out of range: use 0..{}", stream, UINT32_MAX);
  }
  return {{ir::DType::kF32, shape_attribute(context, "shape")}};
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const int64_t seed = operands[0]->get_i64(0), step = operands[1]->get_i64(0);
  const auto stream = static_cast<uint32_t>(node.attribute<int64_t>("stream"));
  std::span<float> elements = results[0].as<float>();
  const int64_t first = operands[2]->get_i64(0) * std::ssize(elements);
  for (int64_t i = 0; i < std::ssize(elements); ++i) {
    elements[i] = philox_uniform(seed, step, stream, first + i);
  }
}

std::vector<Sample> samples() {
  const SampleOperand seed{{ir::DType::kI64, {}}, 0, 1e15}, step{{ir::DType::kI64, {}}, 0, 1e6},
      part{{ir::DType::kI64, {}}, 0, 1e3};
  std::vector<Sample> samples;
  for (std::vector<int64_t> shape : {std::vector<int64_t>{64}, {3, 5}, {}}) {
    samples.push_back({.operands = {seed, step, part},
                       .attributes = {{"shape", shape}, {"stream", int64_t{0xdeadbeef}}},
                       .check_gradient = false});
  }
  return samples;
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType scalar{ir::DType::kI64, {}};
  const std::vector<int64_t> shape = {2};
  return {{{{ir::DType::kI32, {}}, scalar, scalar},
           {{"shape", shape}, {"stream", int64_t{0}}},
           "operand 'seed' is i32[]: it takes i64[], a scalar"},
          {{scalar, {ir::DType::kI64, {1}}, scalar},
           {{"shape", shape}, {"stream", int64_t{0}}},
           "operand 'step' is i64[1]"},
          {{scalar, scalar, scalar},
           {{"shape", shape}, {"stream", int64_t{-1}}},
           "stream -1 out of range: use 0..4294967295"}};
}

}  // namespace

// philox_uniform(seed, step, part, shape, stream): uniform in [0, 1)
const OpDef philox_uniform_op = {
    .name = "philox_uniform",
    .doc =
        "Uniform random f32 in [0, 1): the upper 24 bits of word element % 4 of Philox4x32-10 "
        "with key (seed low, seed high) and counter (element / 4 low, element / 4 high, step "
        "low, stream). The result is one of many equal parts of a tensor: its elements are "
        "numbered from part times their number.",
    .operands = {"seed", "step", "part"},
    .attributes = {{"shape", AttributeKind::kInts}, {"stream", AttributeKind::kInt}},
    .traits = kCreation,
    .infer = infer,
    .reference = reference,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
