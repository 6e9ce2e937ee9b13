#include "ops/builder.h"
#include "ops/division.h"
#include "ops/elements.h"
#include "ops/registry.h"
#include "ops/shape/parts.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType& x = context.operands[0];
  const int axis = context.axis("axis");
  const auto& sizes = context.attribute<std::vector<int64_t>>("sizes");
  std::vector<ir::TensorType> parts;
  int64_t total = 0;
  for (int64_t size : sizes) {
    if (size <= 0) context.fail("sizes [{}]: each must be positive", fmt::join(sizes, ","));
    total += size;
    parts.push_back({x.dtype, with_dim(x.shape, axis, size)});
  }
  if (total != x.shape[axis] || parts.empty()) {
    context.fail("sizes [{}] add up to {}: axis {} of {} needs {}", fmt::join(sizes, ","), total,
                 axis, x.str(), x.shape[axis]);
  }
  return parts;
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const auto axis = node.attribute<int64_t>("axis");
  int64_t start = 0;
  for (ir::Literal& part : results) {
    const ir::Shape& shape = part.type().shape;
    copy_from(*operands[0], part_positions(operands[0]->type().shape, shape, axis, start), part);
    start += shape[static_cast<int>(axis)];
  }
}

std::vector<ir::Value> gradient(Builder& b, ir::Node& node, std::span<const ir::Value> cotangents) {
  std::vector<ir::Value> parts;
  for (int i = 0; i < node.num_results(); ++i) {
    parts.push_back(cotangents[i] ? cotangents[i] : b.full(node.types()[i], 0));
  }
  if (parts.size() == 1) return parts;
  return {b.emit("cat", parts, {{"axis", node.attribute<int64_t>("axis")}})};
}

ir::Attributes attributes(int64_t axis, std::vector<int64_t> sizes) {
  return {{"axis", axis}, {"sizes", std::move(sizes)}};
}

// Along the sharded dim where the parts are its blocks.
std::optional<Division> placements(const DivisionContext& c) {
  const ir::Placement& given = c.given[0];
  if (given.is_partial()) return c.of({given}, given);
  if (!given.is_shard()) return {};
  if (c.node.attribute<int64_t>("axis") != given.dim) return c.of({given}, given);
  auto sizes = c.node.attribute<std::vector<int64_t>>("sizes");
  const bool are_blocks =
      std::ssize(sizes) == given.blocks &&
      std::all_of(sizes.begin(), sizes.end(), [&](int64_t size) { return size == sizes[0]; });
  if (!are_blocks) return {};
  for (int64_t& size : sizes) size /= c.size;
  Division division = c.of({given}, ir::Placement::shard(given.dim));
  division.attributes["sizes"] = sizes;
  return division;
}

std::vector<Sample> samples() {
  const SampleOperand x{{ir::DType::kF32, {4, 6}}};
  return {{.operands = {x}, .attributes = attributes(1, {2, 2, 2})},
          {.operands = {x}, .attributes = attributes(0, {1, 3})},
          {.operands = {x}, .attributes = attributes(1, {6})},
          {.operands = {{{ir::DType::kI64, {2, 3, 2}}, -9, 9}},
           .attributes = attributes(1, {2, 1}),
           .check_gradient = false}};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType x{ir::DType::kF32, {2, 6}};
  return {{{x}, attributes(2, {1}), "axis 2 out of range for f32[2,6]: use 0..1"},
          {{x}, attributes(1, {2, 3}), "sizes [2,3] add up to 5: axis 1 of f32[2,6] needs 6"},
          {{x}, attributes(1, {6, 0}), "sizes [6,0]: each must be positive"},
          {{x}, attributes(1, {}), "sizes [] add up to 0"}};
}

}  // namespace

// split_with_sizes(x, axis, sizes): x cut along axis
const OpDef split_with_sizes_op = {
    .name = "split_with_sizes",
    .doc = "x cut along axis into parts of the given sizes, one result each.",
    .operands = {"x"},
    .attributes = {{"axis", AttributeKind::kInt}, {"sizes", AttributeKind::kInts}},
    .traits = kViewLike,
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .placements = placements,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
