#include "ops/shape/packing.h"

namespace monograph::ops {

int64_t alignment_attribute(const InferContext& context) {
  const auto alignment = context.attribute<int64_t>("alignment");
  if (alignment < 1) context.fail("alignment {}: give a number of elements from 1", alignment);
  return alignment;
}

int64_t padded_elements(int64_t num_elements, int64_t alignment) {
  return (num_elements + alignment - 1) / alignment * alignment;
}

}  // namespace monograph::ops
