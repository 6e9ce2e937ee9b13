#include "ops/shape/parts.h"

#include "ops/elements.h"

namespace monograph::ops {

ir::Shape with_dim(const ir::Shape& shape, int64_t axis, int64_t dim) {
  std::vector<int64_t> dims = shape.dims();
  dims[axis] = dim;
  return ir::Shape(std::move(dims));
}

std::vector<int64_t> part_positions(const ir::Shape& whole, const ir::Shape& part, int64_t axis,
                                    int64_t start) {
  const std::vector<int64_t> strides = whole.contiguous_strides();
  return strided_positions(part, strides, start * strides[axis]);
}

}  // namespace monograph::ops
