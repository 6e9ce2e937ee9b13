#include "frontend/session/state_store.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "frontend/session/cuda_backend.h"
#include "frontend/trace/trace.h"

namespace monograph::session {

void StateStore::declare(const trace::State& state) {
  const auto found = slots_.find(state.name());
  const TensorShardStates::Home* home = divided_.find(state.name());
  if (found == slots_.end()) {
    const auto make = [initializer = state.initializer(), type = state.type(), name = state.name(),
                       seed = seed_, home] {
      if (name == trace::kSeedName) return ir::Literal::from_i64({}, {seed});
      const ir::Literal whole = initializer.make(type, name, seed);
      return home == nullptr ? whole : TensorShardStates::cut(*home, whole);
    };
    const ir::TensorType type = home == nullptr ? state.type() : home->part_type();
    Slot& slot = slots_[state.name()] = {type, {}, make, {}};
    // What makes elements by their index cannot make those of a part.
    const bool by_index = home == nullptr || state.initializer().is_zero();
    if (by_index && state.name() != trace::kSeedName) slot.initializer = state.initializer();
  } else if (const ir::TensorType known = declared_type(state.name()); known != state.type()) {
    throw_user_error(
        "state '{}' is {} in this session, but the function being compiled has {}: use another "
        "session, or another name",
        state.name(), known.str(), state.type().str());
  }
}

void StateStore::keep_apart(const std::string& name,
                            std::vector<std::shared_ptr<comm::Communicator>> groups) {
  const bool is_new = !apart_.contains(name);
  apart_.add(name, std::move(groups));
  const auto found = slots_.find(name);
  if (!is_new || found == slots_.end()) return;
  // It was set before the function was compiled.
  write(name, apart_.cut(name, value(name, found->second)));
}

void StateStore::divide(const trace::State& state, std::shared_ptr<comm::Communicator> group) {
  if (divided_.find(state.name()) != nullptr) return;
  divided_.add(state.name(), {*state.tensor_shard(), state.type(), std::move(group)});
  const auto found = slots_.find(state.name());
  if (found == slots_.end()) return;
  // It was set before the function was compiled.
  const TensorShardStates::Home& home = *divided_.find(state.name());
  write(state.name(), TensorShardStates::cut(home, value(state.name(), found->second)));
}

void StateStore::put_on_stages(const trace::State& state, int place,
                               std::shared_ptr<comm::Communicator> group) {
  if (staged_.find(state.name()) != nullptr) return;
  const std::vector<int>& places = state.pipeline_ranks();
  const bool is_here = std::find(places.begin(), places.end(), place) != places.end();
  staged_.add(state.name(), {state.type(), is_here, places.front(), std::move(group)});
  if (is_here) return;
  slots_.erase(state.name());  // it was set before the function was compiled
  host_.map().erase(state.name());
}

void StateStore::declare(const ir::FlatStates& range, const std::vector<trace::State>& members,
                         std::shared_ptr<comm::Communicator> group) {
  if (flat_.is_range(range.name)) return;
  flat_.add(range, std::move(group));
  std::vector<std::pair<const FlatRangeStates::Home*, std::function<ir::Literal()>>> parts;
  bool is_zero = true;
  for (const std::string& name : range.members) {
    const auto member = std::find_if(members.begin(), members.end(),
                                     [&](const trace::State& each) { return each.name() == name; });
    if (member == members.end()) {
      throw_user_error(
          "parameter '{}' of sharded unit '{}' is not read by the function that is compiled first: "
          "compile first one that reads the whole unit",
          name, range.unit->name);
    }
    if (!slots_.contains(name)) declare(*member);
    Slot slot = slots_.extract(name).mapped();
    if (!slot.current.empty()) {  // set before the function was compiled
      slot.initial = [value = slot.current.front()->read(name)] { return value; };
      slot.initializer.reset();
      host_.map().erase(name);
    }
    is_zero = is_zero && slot.initializer && slot.initializer->is_zero();
    parts.emplace_back(flat_.find(name), slot.initial);
  }
  const auto make = [parts, type = range.shard_type()] {
    ir::Literal part(type);
    for (const auto& [home, initial] : parts) FlatRangeStates::write(*home, initial(), part);
    return part;
  };
  Slot& slot = slots_[range.name] = {range.shard_type(), {}, make, {}};
  if (is_zero) slot.initializer = trace::Initializer::constant(0);
}

const StateStore::Slot& StateStore::slot(const std::string& name) const {
  const auto found = slots_.find(name);
  if (found != slots_.end()) return found->second;
  throw_user_error("no state '{}' in this session: it has {}", name,
                   slots_.empty() ? "none; compile a function first"
                                  : fmt::format("{}", fmt::join(names(), ", ")));
}

ir::Literal StateStore::value(const std::string& name, const Slot& slot) const {
  return slot.current.empty() ? slot.initial() : slot.current.front()->read(name);
}

ir::Literal StateStore::get(const std::string& name) const {
  if (apart_.contains(name)) return apart_.gather(name, value(name, slot(name)));
  const StageStates::Home* home = staged_.find(name);
  if (home == nullptr) return here(name);
  return StageStates::fetch(*home, name, home->is_here ? here(name) : ir::Literal());
}

ir::Literal StateStore::here(const std::string& name) const {
  const TensorShardStates::Home* home = divided_.find(name);
  return home == nullptr ? part(name) : TensorShardStates::gather(*home, name, part(name));
}

ir::Literal StateStore::part(const std::string& name) const {
  const FlatRangeStates::Home* home = flat_.find(name);
  if (home == nullptr) return value(name, slot(name));
  const std::string& range = home->range->states.name;
  if (gathered_.first != range) {
    gathered_ = {range, FlatRangeStates::gather(*home->range, value(range, slot(range)))};
  }
  return FlatRangeStates::read(*home, gathered_.second);
}

ir::TensorType StateStore::type(const std::string& name) const {
  const ir::TensorType own = declared_type(name);
  return apart_.contains(name) ? apart_.whole_type(name, own) : own;
}

ir::TensorType StateStore::declared_type(const std::string& name) const {
  const StageStates::Home* staged = staged_.find(name);
  if (staged != nullptr) return staged->type;
  const TensorShardStates::Home* home = divided_.find(name);
  return home == nullptr ? part_type(name) : home->whole;
}

ir::TensorType StateStore::part_type(const std::string& name) const {
  const FlatRangeStates::Home* home = flat_.find(name);
  return home != nullptr ? home->type : slot(name).type;
}

void StateStore::set(const std::string& name, const ir::Literal& value) {
  const FlatRangeStates::Home* home = flat_.find(name);
  const StageStates::Home* staged = staged_.find(name);
  const bool is_known = home != nullptr || staged != nullptr || slots_.contains(name);
  if (is_known && type(name) != value.type()) {
    throw_user_error("state '{}' is {}, the given value is {}: reshape or cast it", name,
                     type(name).str(), value.type().str());
  }
  if (apart_.contains(name)) return write(name, apart_.cut(name, value));
  if (staged != nullptr && !staged->is_here) return;
  const TensorShardStates::Home* divided = divided_.find(name);
  const ir::Literal own = divided == nullptr ? value : TensorShardStates::cut(*divided, value);
  if (home == nullptr) return write(name, own);
  const std::string& range = home->range->states.name;
  ir::Literal part = this->value(range, slot(range));
  FlatRangeStates::write(*home, own, part);
  write(range, part);
}

void StateStore::write(const std::string& name, const ir::Literal& value) {
  host_.write(name, value);
  slots_[name] = {value.type(), {&host_}, {}, {}};
  gathered_ = {};
}

std::vector<std::string> StateStore::names() const {
  std::vector<std::string> names = flat_.names();
  for (const std::string& name : staged_.names_elsewhere()) names.push_back(name);
  for (const auto& [name, each] : slots_) {
    if (!flat_.is_range(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string StateStore::device(const std::string& name) const {
  const FlatRangeStates::Home* home = flat_.find(name);
  const Slot& known = slot(home == nullptr ? name : home->range->states.name);
  return known.current.empty() ? "" : known.current.front()->device();
}

StateStorage& StateStore::cuda(int local_rank) {
  if (!cuda_) cuda_ = make_cuda_states(local_rank);
  return *cuda_;
}

void StateStore::bring(const std::vector<std::string>& states, StateStorage& storage) {
  for (const std::string& name : states) {
    Slot& known = slots_.at(name);
    std::vector<StateStorage*>& current = known.current;
    if (std::find(current.begin(), current.end(), &storage) != current.end()) continue;
    const bool begins = current.empty() && known.initializer;
    if (!begins || !storage.write_initial(name, known.type, *known.initializer, seed_)) {
      storage.write(name, value(name, known));
    }
    known.initial = {};
    current.push_back(&storage);
  }
}

void StateStore::changed(const std::vector<std::string>& states, StateStorage& storage) {
  for (const std::string& name : states) slots_.at(name).current = {&storage};
  gathered_ = {};
}

}  // namespace monograph::session
