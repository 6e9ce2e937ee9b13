#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontend/session/state_storage.h"
#include "frontend/trace/state.h"

namespace monograph::session {

// The states of a session. Each backend has storage of its own; the newest value of a state lies in
// the one that was written last, and is copied only when another backend needs it.
class StateStore {
 public:
  explicit StateStore(int64_t seed) : seed_(seed) {}
  StateStore(const StateStore&) = delete;

  // Makes the state, unless it is there; its initial value is made when first needed. UserError
  // when it is there with another type.
  void declare(const trace::State& state);

  ir::Literal get(const std::string& name) const;
  void set(const std::string& name, const ir::Literal& value);
  bool has(const std::string& name) const { return slots_.contains(name); }
  std::vector<std::string> names() const;

  HostStates& host() { return host_; }
  CpuStates& cpu() { return cpu_; }
  // Made when first asked for; UserError where no GPU can be used.
  StateStorage& cuda();

  // Before a run on `storage`: brings the newest values of these states there.
  void bring(const std::vector<std::string>& states, StateStorage& storage);
  // After it: these have changed there.
  void changed(const std::vector<std::string>& states, StateStorage& storage);

 private:
  struct Slot {
    ir::TensorType type;
    std::vector<StateStorage*> current;         // who has the newest value, if anyone
    std::optional<trace::Initializer> initial;  // where nobody has it yet
  };
  const Slot& slot(const std::string& name) const;
  ir::Literal value(const std::string& name, const Slot& slot) const;

  int64_t seed_;
  HostStates host_;
  CpuStates cpu_;
  std::unique_ptr<StateStorage> cuda_;
  std::map<std::string, Slot> slots_;
};

}  // namespace monograph::session
