#include "passes/memory/placement.h"

#include "base/error.h"
#include "ops/registry.h"

namespace monograph::passes {

using ir::Shape;

namespace {

// Elements that a part of a `pack` takes.
int64_t padded_size(const Shape& shape, int64_t alignment) {
  return (shape.num_elements() + alignment - 1) / alignment * alignment;
}

// The stride of a dim with one index says nothing: it is set to that of a dense value, so that
// equal places compare equal and are read by equal kernels.
Placement settled(Placement placement, const Shape& shape) {
  const std::vector<int64_t> dense = shape.contiguous_strides();
  for (int dim = 0; dim < shape.rank(); ++dim) {
    if (shape[dim] == 1) placement.strides[dim] = dense[dim];
  }
  return placement;
}

}  // namespace

std::optional<std::vector<int64_t>> reshape_strides(const Shape& from,
                                                    const std::vector<int64_t>& strides,
                                                    const Shape& to) {
  std::vector<int64_t> result(to.rank(), 1);
  int i = from.rank() - 1;
  int j = to.rank() - 1;
  // Matches groups of dims with equal products, innermost first.
  while (i >= 0 || j >= 0) {
    if (i >= 0 && from[i] == 1) {
      --i;
      continue;
    }
    if (j >= 0 && to[j] == 1) {
      --j;
      continue;
    }
    if (i < 0 || j < 0) return std::nullopt;
    const int64_t innermost = strides[i];
    int64_t from_product = from[i];
    int64_t to_product = to[j];
    result[j] = innermost;
    while (from_product != to_product) {
      if (from_product < to_product) {
        if (--i < 0) return std::nullopt;
        if (from[i] != 1 && strides[i] != innermost * from_product) return std::nullopt;
        from_product *= from[i];
      } else {
        if (--j < 0) return std::nullopt;
        result[j] = innermost * to_product;
        to_product *= to[j];
      }
    }
    --i;
    --j;
  }
  return result;
}

std::vector<int64_t> pack_offsets(const std::vector<Shape>& shapes, int64_t alignment) {
  std::vector<int64_t> offsets = {0};
  for (const Shape& shape : shapes) {
    offsets.push_back(offsets.back() + padded_size(shape, alignment));
  }
  return offsets;
}

std::vector<int64_t> unpadded_parts(const ir::Node& pack) {
  std::vector<int64_t> parts;
  int64_t end = 0;
  for (ir::Value operand : pack.operands()) {
    parts.push_back(end);
    end += operand.type().num_bytes();
  }
  return end == pack.types()[0].num_bytes() ? parts : std::vector<int64_t>();
}

std::optional<Placement> view_placement(const ir::Node& view, int index, const Placement& operand) {
  const Shape& from = view.operand(0).shape();
  const Shape& to = view.types()[index].shape;
  Placement result = operand;
  if (ops::has_trait(view, ops::kDone)) return result;
  if (view.is("reshape")) {
    auto strides = reshape_strides(from, operand.strides, to);
    if (!strides) return std::nullopt;
    result.strides = std::move(*strides);
  } else if (view.is("permute")) {
    const auto& axes = view.attribute<std::vector<int64_t>>("axes");
    for (size_t i = 0; i < axes.size(); ++i) result.strides[i] = operand.strides[axes[i]];
  } else if (view.is("slice")) {
    const int64_t axis = view.attribute<int64_t>("axis");
    const int64_t start = view.attribute<int64_t>("start");
    const int64_t from_axis = axis < 0 ? axis + from.rank() : axis;
    result.offset += (start < 0 ? start + from[from_axis] : start) * operand.strides[from_axis];
  } else if (view.is("split_with_sizes")) {
    const int64_t axis = view.attribute<int64_t>("axis");
    const auto& sizes = view.attribute<std::vector<int64_t>>("sizes");
    const int64_t from_axis = axis < 0 ? axis + from.rank() : axis;
    for (int i = 0; i < index; ++i) result.offset += sizes[i] * operand.strides[from_axis];
  } else if (view.is("unpack")) {
    if (operand.strides != std::vector<int64_t>{1}) return std::nullopt;
    const auto& shapes = view.attribute<std::vector<Shape>>("shapes");
    const auto alignment = view.attribute<int64_t>("alignment");
    for (int i = 0; i < index; ++i) result.offset += padded_size(shapes[i], alignment);
    result.strides = to.contiguous_strides();
  } else if (!view.is("after")) {
    throw_internal_error("view_placement: '{}' is no view", view.op());
  }
  return settled(std::move(result), to);
}

std::optional<Placement> operand_placement(const ir::Node& view, int index,
                                           const Placement& result) {
  const Shape& from = view.operand(0).shape();
  const Shape& to = view.types()[index].shape;
  Placement operand = result;
  if (ops::has_trait(view, ops::kDone) || view.is("after")) return operand;
  if (view.is("reshape")) {
    auto strides = reshape_strides(to, result.strides, from);
    if (!strides) return std::nullopt;
    operand.strides = std::move(*strides);
    return settled(std::move(operand), from);
  }
  if (view.is("permute")) {
    const auto& axes = view.attribute<std::vector<int64_t>>("axes");
    for (size_t i = 0; i < axes.size(); ++i) operand.strides[axes[i]] = result.strides[i];
    return settled(std::move(operand), from);
  }
  if (view.is("unpack")) {
    if (result.strides != to.contiguous_strides()) return std::nullopt;
    const auto& shapes = view.attribute<std::vector<Shape>>("shapes");
    const auto alignment = view.attribute<int64_t>("alignment");
    for (int i = 0; i < index; ++i) operand.offset -= padded_size(shapes[i], alignment);
    operand.strides = {1};
    if (operand.offset < 0) return std::nullopt;
    return operand;
  }
  return std::nullopt;
}

Placement part_placement(const ir::Node& gather, int index, const Placement& result) {
  Placement part = result;
  if (gather.is("broadcast_start")) return part;
  if (gather.is("pack") || gather.is("all_reduce_start")) {
    const auto alignment = gather.attribute<int64_t>("alignment");
    for (int i = 0; i < index; ++i) {
      part.offset += padded_size(gather.operand(i).shape(), alignment);
    }
    part.offset -= gather.attribute_or("begin", int64_t{0});
    part.strides = gather.operand(index).shape().contiguous_strides();
    return part;
  }
  check(gather.is("cat"), "part_placement: '{}' gathers nothing", gather.op());
  const int64_t axis = gather.attribute<int64_t>("axis");
  const int64_t at = axis < 0 ? axis + result.strides.size() : axis;
  for (int i = 0; i < index; ++i) part.offset += gather.operand(i).shape()[at] * result.strides[at];
  return settled(std::move(part), gather.operand(index).shape());
}

bool is_accumulation(const ir::Node& node) {
  return node.is("addmm") && node.operand(0).type() == node.types()[0];
}

bool has_whole_rows(const Shape& shape, const std::vector<int64_t>& strides) {
  return shape.rank() < 4 || shape[3] == 1 || strides[3] == 1;
}

bool is_matrix(const Shape& shape, const std::vector<int64_t>& strides) {
  const size_t rank = strides.size();
  const int64_t rows = shape[-2];
  const int64_t columns = shape[-1];
  const int64_t row_stride = strides[rank - 2];
  const int64_t column_stride = strides[rank - 1];
  const bool plain = (column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1);
  const bool transposed = (row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1);
  return plain || transposed;
}

}  // namespace monograph::passes
