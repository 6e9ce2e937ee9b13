#include "frontend/session/state_store.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "frontend/session/cuda_backend.h"
#include "frontend/trace/trace.h"

namespace monograph::session {

void StateStore::declare(const trace::State& state) {
  const auto found = slots_.find(state.name());
  if (found == slots_.end()) {
    slots_[state.name()] = {state.type(), {}, state.initializer()};
  } else if (found->second.type != state.type()) {
    throw_user_error(
        "state '{}' is {} in this session, but the function being compiled has {}: use another "
        "session, or another name",
        state.name(), found->second.type.str(), state.type().str());
  }
}

const StateStore::Slot& StateStore::slot(const std::string& name) const {
  const auto found = slots_.find(name);
  if (found != slots_.end()) return found->second;
  throw_user_error("no state '{}' in this session: it has {}", name,
                   slots_.empty() ? "none; compile a function first"
                                  : fmt::format("{}", fmt::join(names(), ", ")));
}

ir::Literal StateStore::value(const std::string& name, const Slot& slot) const {
  if (!slot.current.empty()) return slot.current.front()->read(name);
  if (name == trace::kSeedName) return ir::Literal::from_i64({}, {seed_});
  return slot.initial->make(slot.type, name, seed_);
}

ir::Literal StateStore::get(const std::string& name) const {
  return value(name, slot(name));
}

void StateStore::set(const std::string& name, const ir::Literal& value) {
  const auto found = slots_.find(name);
  if (found != slots_.end() && found->second.type != value.type()) {
    throw_user_error("state '{}' is {}, the given value is {}: reshape or cast it", name,
                     found->second.type.str(), value.type().str());
  }
  host_.write(name, value);
  slots_[name] = {value.type(), {&host_}, std::nullopt};
}

std::vector<std::string> StateStore::names() const {
  std::vector<std::string> names;
  for (const auto& [name, each] : slots_) names.push_back(name);
  return names;
}

StateStorage& StateStore::cuda() {
  if (!cuda_) cuda_ = make_cuda_states();
  return *cuda_;
}

void StateStore::bring(const std::vector<std::string>& states, StateStorage& storage) {
  for (const std::string& name : states) {
    Slot& known = slots_.at(name);
    std::vector<StateStorage*>& current = known.current;
    if (std::find(current.begin(), current.end(), &storage) != current.end()) continue;
    const bool begins = current.empty() && name != trace::kSeedName;
    if (!begins || !storage.write_initial(name, known.type, *known.initial, seed_)) {
      storage.write(name, value(name, known));
    }
    current.push_back(&storage);
  }
}

void StateStore::changed(const std::vector<std::string>& states, StateStorage& storage) {
  for (const std::string& name : states) slots_.at(name).current = {&storage};
}

}  // namespace monograph::session
