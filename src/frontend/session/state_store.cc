#include "frontend/session/state_store.h"

#include "base/error.h"
#include "frontend/trace/trace.h"

namespace monograph::session {

void StateStore::declare(const trace::State& state) {
  const auto found = slots_.find(state.name());
  if (found != slots_.end()) {
    const ir::TensorType& held = found->second.host.type();
    if (held == state.type()) return;
    throw_user_error(
        "state '{}' is {} in this session, but the function being compiled has {}: "
        "use another session, or another name",
        state.name(), held.str(), state.type().str());
  }
  ir::Literal initial = state.name() == trace::kSeedName
                            ? ir::Literal::from_i64({}, {seed_})
                            : state.initializer().make(state.type(), state.name(), seed_);
  slots_[state.name()].host = std::move(initial);
}

const StateStore::Slot& StateStore::slot(const std::string& name) const {
  const auto found = slots_.find(name);
  if (found != slots_.end()) return found->second;
  std::string known;
  for (const std::string& each : names()) known += (known.empty() ? "" : ", ") + each;
  throw_user_error("no state '{}' in this session: it has {}", name,
                   known.empty() ? "none; compile a function first" : known);
}

ir::Literal StateStore::get(const std::string& name) const {
  const Slot& found = slot(name);
  return found.holder ? found.holder->read_state(name) : found.host;
}

void StateStore::set(const std::string& name, const ir::Literal& value) {
  const auto found = slots_.find(name);
  if (found == slots_.end()) {
    slots_[name].host = value;
    return;
  }
  Slot& known = found->second;
  if (known.host.type() != value.type()) {
    throw_user_error("state '{}' is {}, the given value is {}: reshape or cast it", name,
                     known.host.type().str(), value.type().str());
  }
  known.host = value;
  known.holder = nullptr;
  ++known.version;
}

std::vector<std::string> StateStore::names() const {
  std::vector<std::string> names;
  for (const auto& [name, each] : slots_) names.push_back(name);
  return names;
}

void StateStore::bring(Residence& residence) {
  for (const std::string& name : residence.states) {
    const Slot& newest = slot(name);
    uint64_t& version = residence.versions[name];
    if (version == newest.version) continue;
    residence.executable->write_state(name, get(name));
    version = newest.version;
  }
}

void StateStore::ran(Residence& residence) {
  for (const std::string& name : residence.updated) {
    Slot& newest = slots_.at(name);
    newest.holder = residence.executable;
    residence.versions[name] = ++newest.version;
  }
}

}  // namespace monograph::session
