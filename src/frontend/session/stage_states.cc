#include "frontend/session/stage_states.h"

#include "base/error.h"

namespace monograph::session {

const StageStates::Home* StageStates::find(const std::string& name) const {
  const auto found = homes_.find(name);
  return found == homes_.end() ? nullptr : &found->second;
}

std::vector<std::string> StageStates::names_elsewhere() const {
  std::vector<std::string> names;
  for (const auto& [name, home] : homes_) {
    if (!home.is_here) names.push_back(name);
  }
  return names;
}

ir::Literal StageStates::fetch(const Home& home, const std::string& name, ir::Literal own) {
  if (home.group == nullptr) {
    if (home.is_here) return own;
    throw_user_error("state '{}' is on another stage: give the session the mesh that it is on",
                     name);
  }
  ir::Literal value = home.is_here ? std::move(own) : ir::Literal(home.type);
  home.group->broadcast(value.data(), home.type.num_bytes(), comm::ElementType::kU8, home.first,
                        name);
  return value;
}

}  // namespace monograph::session
