#include "frontend/session/flat_range_states.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace monograph::session {

void FlatRangeStates::add(ir::FlatStates states, std::shared_ptr<comm::Communicator> group) {
  const std::string name = states.name;
  const ir::DType dtype = states.dtype;
  const Range& range = ranges_[name] = {std::move(states), std::move(group)};
  const auto& members = range.states.unit->members;
  int64_t offset = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    const ir::TensorType type = {dtype, members[i].shape};
    homes_[range.states.members[i]] = {&range, offset, type};
    const int64_t count = type.num_elements();
    offset += (count + ir::kFlatAlignment - 1) / ir::kFlatAlignment * ir::kFlatAlignment;
  }
}

const FlatRangeStates::Home* FlatRangeStates::find(const std::string& name) const {
  const auto found = homes_.find(name);
  return found == homes_.end() ? nullptr : &found->second;
}

std::vector<std::string> FlatRangeStates::names() const {
  std::vector<std::string> names;
  for (const auto& [name, home] : homes_) names.push_back(name);
  return names;
}

void FlatRangeStates::write(const Home& home, const ir::Literal& value, ir::Literal& part) {
  const int64_t first = home.range->first();
  const int64_t begin = std::max(home.offset, first);
  const int64_t end = std::min(home.offset + value.num_elements(), first + part.num_elements());
  if (begin >= end) return;
  const int64_t element = ir::dtype_bytes(part.type().dtype);
  std::memcpy(part.data() + (begin - first) * element,
              value.data() + (begin - home.offset) * element, (end - begin) * element);
}

ir::Literal FlatRangeStates::gather(const Range& range, const ir::Literal& part) {
  if (range.group == nullptr) {
    throw_user_error(
        "state '{}' is sharded over axis '{}': give the session the mesh that it is on",
        range.states.name, range.states.unit->axis);
  }
  ir::Literal whole({part.type().dtype, {part.num_elements() * range.group->size()}});
  range.group->all_gather(part.data(), whole.data(), part.type().num_bytes(),
                          comm::ElementType::kU8, range.states.name);
  return whole;
}

ir::Literal FlatRangeStates::read(const Home& home, const ir::Literal& whole) {
  ir::Literal value(home.type);
  const int64_t element = ir::dtype_bytes(home.type.dtype);
  std::memcpy(value.data(), whole.data() + home.offset * element, home.type.num_bytes());
  return value;
}

}  // namespace monograph::session
