#include "frontend/session/rank_states.h"

#include <cstring>

namespace monograph::session {

ir::TensorType RankStates::whole_type(const std::string& name, const ir::TensorType& own) const {
  int64_t num_ranks = 1;
  for (const auto& group : groups_.at(name)) num_ranks *= group->size();
  std::vector<int64_t> dims = own.shape.dims();
  dims.insert(dims.begin(), num_ranks);
  return {own.dtype, ir::Shape(std::move(dims))};
}

ir::Literal RankStates::cut(const std::string& name, const ir::Literal& whole) const {
  int64_t rank = 0;
  for (const auto& group : groups_.at(name)) rank = rank * group->size() + group->rank();
  std::vector<int64_t> dims = whole.type().shape.dims();
  dims.erase(dims.begin());
  ir::Literal own({whole.type().dtype, ir::Shape(std::move(dims))});
  const int64_t bytes = own.type().num_bytes();
  std::memcpy(own.data(), whole.data() + rank * bytes, bytes);
  return own;
}

ir::Literal RankStates::gather(const std::string& name, const ir::Literal& own) const {
  const std::vector<std::shared_ptr<comm::Communicator>>& groups = groups_.at(name);
  ir::Literal all = own;
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    const int64_t bytes = all.type().num_bytes();
    ir::Literal more({ir::DType::kU8, {bytes * (*group)->size()}});
    (*group)->all_gather(all.data(), more.data(), bytes, comm::ElementType::kU8, name);
    all = std::move(more);
  }
  ir::Literal whole(whole_type(name, own.type()));
  std::memcpy(whole.data(), all.data(), whole.type().num_bytes());
  return whole;
}

}  // namespace monograph::session
