#pragma once

#include "ops/op_def.h"

// Tensors packed into one flat range, each padded to a multiple of an alignment: pack and unpack.
namespace monograph::ops {

// Attribute `alignment`, in elements; refuses what is below 1.
int64_t alignment_attribute(const InferContext& context);

// `num_elements` rounded up to a multiple of `alignment`.
int64_t padded_elements(int64_t num_elements, int64_t alignment);

}  // namespace monograph::ops
