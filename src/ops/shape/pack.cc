#include <algorithm>

#include "ops/division.h"
#include "ops/registry.h"
#include "ops/shape/packing.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  const int64_t alignment = alignment_attribute(context);
  const ir::TensorType& first = context.operands[0];
  int64_t total = 0;
  for (const ir::TensorType& x : context.operands) {
    if (x.dtype != first.dtype) {
      context.fail("operands {} and {}: all must have one dtype", first.str(), x.str());
    }
    total += padded_elements(x.num_elements(), alignment);
  }
  return {{first.dtype, {total}}};
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const auto alignment = node.attribute<int64_t>("alignment");
  const int64_t element_bytes = ir::dtype_bytes(results[0].type().dtype);
  std::byte* place = results[0].data();
  for (const ir::Literal* x : operands) {
    std::copy_n(x->data(), x->type().num_bytes(), place);
    place += padded_elements(x->num_elements(), alignment) * element_bytes;
  }
}

// A range of the ranks' parts: only if each operand lies in parts.
std::optional<Division> placements(const DivisionContext& c) {
  const bool are_parts = std::all_of(c.given.begin(), c.given.end(),
                                     [](const ir::Placement& each) { return each.is_shard(); });
  if (!are_parts) return {};
  return c.of({c.given.begin(), c.given.end()},
              ir::Placement::packed({c.given.begin(), c.given.end()}));
}

std::vector<Sample> samples() {
  const auto f32 = [](ir::Shape shape) {
    return SampleOperand{{ir::DType::kF32, std::move(shape)}};
  };
  const auto sample = [](std::vector<SampleOperand> xs, int64_t alignment) {
    return Sample{.operands = std::move(xs),
                  .attributes = {{"alignment", alignment}},
                  .check_gradient = false};
  };
  return {sample({f32({2, 3}), f32({5}), f32({})}, 4), sample({f32({2, 3}), f32({5})}, 1),
          sample({f32({8})}, 8), sample({{{ir::DType::kBF16, {3}}}, {{ir::DType::kBF16, {4}}}}, 4)};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType x{ir::DType::kF32, {2}};
  return {{{x, {ir::DType::kF64, {2}}},
           {{"alignment", int64_t{4}}},
           "operands f32[2] and f64[2]: all must have one dtype"},
          {{x}, {{"alignment", int64_t{0}}}, "alignment 0: give a number of elements from 1"},
          {{}, {{"alignment", int64_t{4}}}, "0 operands given: it takes at least 1 (xs...)"}};
}

}  // namespace

// pack(xs..., alignment): one flat range
const OpDef pack_op = {
    .name = "pack",
    .doc =
        "The operands flattened into one range, in order, each padded with zeros to a multiple "
        "of alignment elements.",
    .operands = {"xs..."},
    .attributes = {{"alignment", AttributeKind::kInt}},
    .traits = kGather,
    .infer = infer,
    .reference = reference,
    .placements = placements,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
