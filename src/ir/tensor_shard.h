#pragma once

#include <string>

#include "ir/placement.h"

namespace monograph::ir {

// A state of which each rank of a mesh axis keeps a part (see nn::tensor_parallel).
struct TensorShard {
  std::string axis;
  int64_t axis_size = 1;
  Placement placement;                // a shard
  bool is_sequence_parallel = false;  // see passes::TensorShards

  Shape part_of(const Shape& whole) const { return placement.part_of(whole, axis_size); }
};

}  // namespace monograph::ir
