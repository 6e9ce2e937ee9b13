#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace monograph::ir {

// In elements: 256 bytes of float32, so that a tensor in a flat range begins a cache line.
inline constexpr int64_t kFlatAlignment = 64;

// Placement FlatShard(unit): parameters side by side in one flat range, each padded with zeros to a
// multiple of kFlatAlignment, of which each rank of a mesh axis keeps an equal part. The range is
// padded so that parts are equal and aligned, too. They are gathered as a whole, unit by unit.
struct FlatUnit {
  struct Member {
    std::string name;
    Shape shape;
  };
  std::string name;  // "h.0": the module; "vectors": of all modules
  std::string axis;
  int64_t axis_size = 1;
  // Gathered again for each pass over the model, and not kept from the forward to the backward one.
  bool is_regathered = true;
  std::vector<Member> members;  // in order

  std::vector<Shape> shapes() const;
  int64_t num_elements() const;    // with the padding of members
  int64_t shard_elements() const;  // of one rank
};

// States that lie as a unit has its parameters: the parameters themselves, or a moment of each.
// They are one state of a rank, [shard_elements], by the name here.
struct FlatStates {
  std::string name;  // "flat.h.0", "optimizer.m.flat.h.0"
  StateRole role = StateRole::kParameter;
  std::shared_ptr<const FlatUnit> unit;
  std::vector<std::string> members;  // names, beside the unit's
  DType dtype = DType::kF32;         // moments: bf16 too

  TensorType shard_type() const { return {dtype, {unit->shard_elements()}}; }
};

}  // namespace monograph::ir
