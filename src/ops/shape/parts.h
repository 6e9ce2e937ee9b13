#pragma once

#include "ops/op_def.h"

// Parts of a tensor along one axis: slice, split_with_sizes and cat.
namespace monograph::ops {

// `shape` with `dim` along `axis`.
ir::Shape with_dim(const ir::Shape& shape, int64_t axis, int64_t dim);

// The positions in a tensor of shape `whole` of a part of shape `part`, which begins at `start`
// along `axis`.
std::vector<int64_t> part_positions(const ir::Shape& whole, const ir::Shape& part, int64_t axis,
                                    int64_t start);

}  // namespace monograph::ops
