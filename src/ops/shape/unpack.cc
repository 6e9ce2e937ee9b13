#include <algorithm>

#include "ops/division.h"
#include "ops/registry.h"
#include "ops/shape/packing.h"

namespace monograph::ops::defs {
namespace {

std::vector<ir::TensorType> infer(const InferContext& context) {
  const ir::TensorType& x = context.operands[0];
  const int64_t alignment = alignment_attribute(context);
  std::vector<ir::TensorType> parts;
  int64_t total = 0;
  for (const ir::Shape& shape : context.attribute<std::vector<ir::Shape>>("shapes")) {
    parts.push_back({x.dtype, shape});
    total += padded_elements(shape.num_elements(), alignment);
  }
  if (parts.empty() || x.shape != ir::Shape{total}) {
    context.fail("operand 'x' is {}: the shapes, each padded to {} elements, need [{}]", x.str(),
                 alignment, total);
  }
  return parts;
}

void reference(const ir::Node& node, Literals operands, std::span<ir::Literal> results) {
  const auto alignment = node.attribute<int64_t>("alignment");
  const int64_t element_bytes = ir::dtype_bytes(operands[0]->type().dtype);
  const std::byte* place = operands[0]->data();
  for (ir::Literal& part : results) {
    std::copy_n(place, part.type().num_bytes(), part.data());
    place += padded_elements(part.num_elements(), alignment) * element_bytes;
  }
}

ir::Attributes attributes(std::vector<ir::Shape> shapes, int64_t alignment) {
  return {{"shapes", std::move(shapes)}, {"alignment", alignment}};
}

std::optional<Division> placements(const DivisionContext& c) {
  const ir::Placement& given = c.given[0];
  if (!given.is_packed()) return {};
  Division division = c.of({given}, {});
  division.results = *given.members;
  auto shapes = c.node.attribute<std::vector<ir::Shape>>("shapes");
  for (size_t i = 0; i < shapes.size(); ++i) {
    shapes[i] = division.results[i].part_of(shapes[i], c.size);
  }
  division.attributes["shapes"] = shapes;
  return division;
}

std::vector<Sample> samples() {
  const auto sample = [](int64_t size, std::vector<ir::Shape> shapes, int64_t alignment) {
    return Sample{.operands = {{{ir::DType::kF32, {size}}}},
                  .attributes = attributes(std::move(shapes), alignment),
                  .check_gradient = false};
  };
  return {sample(20, {{2, 3}, {5}, {}}, 4), sample(11, {{2, 3}, {5}}, 1), sample(8, {{8}}, 8)};
}

std::vector<BadSample> bad_samples() {
  const ir::TensorType x{ir::DType::kF32, {12}};
  return {{{x},
           attributes({{2, 3}}, 4),
           "operand 'x' is f32[12]: the shapes, each padded to 4 elements, need [8]"},
          {{x}, attributes({}, 4), "need [0]"},
          {{x}, attributes({{12}}, -4), "alignment -4: give a number of elements from 1"},
          {{{ir::DType::kF32, {3, 4}}}, attributes({{12}}, 4), "operand 'x' is f32[3,4]"}};
}

}  // namespace

// unpack(x, shapes, alignment): the inverse of pack
const OpDef unpack_op = {
    .name = "unpack",
    .doc = "The tensors of the given shapes that pack laid into x, one result each.",
    .operands = {"x"},
    .attributes = {{"shapes", AttributeKind::kShapes}, {"alignment", AttributeKind::kInt}},
    .traits = kViewLike,
    .infer = infer,
    .reference = reference,
    .placements = placements,
    .samples = samples,
    .bad_samples = bad_samples,
};

}  // namespace monograph::ops::defs
