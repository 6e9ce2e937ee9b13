#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/type.h"

namespace monograph::ir {

// How a value lies over the ranks of one mesh axis.
struct Placement {
  enum class Kind : uint8_t {
    kReplicate,  // every rank has it as a whole
    kShard,      // each rank has an equal part of `dim`
    kPartial,    // each rank has a summand, or a candidate for the largest
    kPacked,     // a flat range of values side by side: `members` says how each lies
  };
  enum class Reduction : uint8_t { kSum, kMax };

  Kind kind = Kind::kReplicate;
  int dim = 0;         // of kShard
  int64_t blocks = 1;  // of kShard: tensors side by side in `dim`, of each of which it has a part
  Reduction reduction = Reduction::kSum;                            // of kPartial
  std::shared_ptr<const std::vector<Placement>> members = nullptr;  // of kPacked

  static Placement replicate() { return {}; }
  static Placement shard(int dim, int64_t blocks = 1) { return {Kind::kShard, dim, blocks}; }
  static Placement partial(Reduction reduction = Reduction::kSum) {
    return {Kind::kPartial, 0, 1, reduction};
  }
  static Placement packed(std::vector<Placement> members);

  bool is_replicate() const { return kind == Kind::kReplicate; }
  bool is_shard() const { return kind == Kind::kShard; }
  bool is_partial() const { return kind == Kind::kPartial; }
  bool is_sum() const { return is_partial() && reduction == Reduction::kSum; }
  bool is_packed() const { return kind == Kind::kPacked; }
  bool operator==(const Placement& other) const;

  // What each of `size` ranks has of a tensor of this shape.
  Shape part_of(const Shape& whole, int64_t size) const;
  // Whether a tensor of this shape can lie so over `size` ranks.
  bool fits(const Shape& whole, int64_t size) const;
  std::string str() const;  // "replicate", "shard(1)", "shard(1, 3 blocks)", "partial(sum)"
};

// Where the shard of a tensor of shape `from` lies when its elements are shown as `to`; none: it is
// not a shard there.
std::optional<Placement> reshape_shard(const Placement& shard, const Shape& from, const Shape& to,
                                       int64_t size);
// The shard of an operand that a shard of the result of broadcasting asks for; replicate where the
// operand's dim is 1 or missing there.
Placement broadcast_shard(const Placement& shard, const Shape& result, const Shape& operand);

}  // namespace monograph::ir
