#include "frontend/session/tensor_shard_states.h"

#include <cstring>
#include <functional>

#include "base/error.h"

namespace monograph::session {
namespace {

// Visits the runs of bytes that rank's part consists of: where each lies in the whole and the part.
void for_each_run(const TensorShardStates::Home& home, int64_t rank,
                  const std::function<void(int64_t, int64_t, int64_t)>& visit) {
  const auto& dims = home.whole.shape.dims();
  const ir::Placement& shard = home.shard.placement;
  const int64_t size = home.shard.axis_size;
  int64_t outer = shard.blocks, inner = ir::dtype_bytes(home.whole.dtype);
  for (int dim = 0; dim < shard.dim; ++dim) outer *= dims[dim];
  for (size_t dim = shard.dim + 1; dim < dims.size(); ++dim) inner *= dims[dim];
  const int64_t run = dims[shard.dim] / (shard.blocks * size) * inner;
  for (int64_t i = 0; i < outer; ++i) visit((i * size + rank) * run, i * run, run);
}

}  // namespace

const TensorShardStates::Home* TensorShardStates::find(const std::string& name) const {
  const auto found = homes_.find(name);
  return found == homes_.end() ? nullptr : &found->second;
}

ir::Literal TensorShardStates::cut(const Home& home, const ir::Literal& whole) {
  ir::Literal part(home.part_type());
  const int64_t rank = home.group == nullptr ? 0 : home.group->rank();
  for_each_run(home, rank, [&](int64_t in_whole, int64_t in_part, int64_t bytes) {
    std::memcpy(part.data() + in_part, whole.data() + in_whole, bytes);
  });
  return part;
}

ir::Literal TensorShardStates::gather(const Home& home, const std::string& name,
                                      const ir::Literal& part) {
  if (home.group == nullptr) {
    throw_user_error(
        "state '{}' is sharded over axis '{}': give the session the mesh that it is on", name,
        home.shard.axis);
  }
  const int64_t bytes = part.type().num_bytes();
  ir::Literal all({ir::DType::kU8, {bytes * home.shard.axis_size}});
  home.group->all_gather(part.data(), all.data(), bytes, comm::ElementType::kU8, name);
  ir::Literal whole(home.whole);
  for (int64_t rank = 0; rank < home.shard.axis_size; ++rank) {
    for_each_run(home, rank, [&](int64_t in_whole, int64_t in_part, int64_t run) {
      std::memcpy(whole.data() + in_whole, all.data() + rank * bytes + in_part, run);
    });
  }
  return whole;
}

}  // namespace monograph::session
