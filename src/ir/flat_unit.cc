#include "ir/flat_unit.h"

namespace monograph::ir {
namespace {

int64_t align_up(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

std::vector<Shape> FlatUnit::shapes() const {
  std::vector<Shape> shapes;
  for (const Member& member : members) shapes.push_back(member.shape);
  return shapes;
}

int64_t FlatUnit::num_elements() const {
  int64_t count = 0;
  for (const Member& member : members) {
    count += align_up(member.shape.num_elements(), kFlatAlignment);
  }
  return count;
}

int64_t FlatUnit::shard_elements() const {
  return align_up(num_elements(), axis_size * kFlatAlignment) / axis_size;
}

}  // namespace monograph::ir
