#include "ir/placement.h"

#include <fmt/format.h>

namespace monograph::ir {

Placement Placement::packed(std::vector<Placement> members) {
  Placement placement;
  placement.kind = Kind::kPacked;
  placement.members = std::make_shared<const std::vector<Placement>>(std::move(members));
  return placement;
}

bool Placement::operator==(const Placement& other) const {
  if (kind != other.kind || dim != other.dim || blocks != other.blocks) return false;
  if (is_packed()) return *members == *other.members;
  return reduction == other.reduction;
}

Shape Placement::part_of(const Shape& whole, int64_t size) const {
  if (!is_shard()) return whole;
  std::vector<int64_t> dims = whole.dims();
  dims[dim] /= size;
  return Shape(std::move(dims));
}

bool Placement::fits(const Shape& whole, int64_t size) const {
  return !is_shard() || (dim < whole.rank() && whole[dim] % (blocks * size) == 0);
}

std::string Placement::str() const {
  switch (kind) {
    case Kind::kReplicate:
      return "replicate";
    case Kind::kShard:
      return blocks == 1 ? fmt::format("shard({})", dim)
                         : fmt::format("shard({}, {} blocks)", dim, blocks);
    case Kind::kPartial:
      return reduction == Reduction::kSum ? "partial(sum)" : "partial(max)";
    case Kind::kPacked:
      return "packed";
  }
  return "";
}

// In row-major order the elements are [outer, ranks, inner]: the dim that begins with whole outer
// parts and holds the ranks is the sharded one.
std::optional<Placement> reshape_shard(const Placement& shard, const Shape& from, const Shape& to,
                                       int64_t size) {
  int64_t outer = shard.blocks;
  for (int dim = 0; dim < shard.dim; ++dim) outer *= from[dim];
  int64_t before = 1;  // product of the dims of `to` that are passed
  for (int dim = 0; dim < to.rank(); before *= to[dim++]) {
    if (outer % before != 0) return {};
    const int64_t blocks = outer / before;
    if (to[dim] > 0 && to[dim] % (blocks * size) == 0) return Placement::shard(dim, blocks);
  }
  return {};
}

Placement broadcast_shard(const Placement& shard, const Shape& result, const Shape& operand) {
  const int dim = shard.dim - (result.rank() - operand.rank());
  if (dim < 0 || operand[dim] == 1) return Placement::replicate();
  return Placement::shard(dim, shard.blocks);
}

}  // namespace monograph::ir
