#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontend/session/flat_range_states.h"
#include "frontend/session/rank_states.h"
#include "frontend/session/stage_states.h"
#include "frontend/session/state_storage.h"
#include "frontend/session/tensor_shard_states.h"
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
  // The state is this rank's part, along one dim, of what it is to the model; before `declare`.
  void divide(const trace::State& state, std::shared_ptr<comm::Communicator> group);
  // The state is one of many of its name: each rank has its own, and the session all of them,
  // [ranks,
  // ...]. `groups`: of the axes whose ranks they are, the last changes fastest; before `declare`.
  void keep_apart(const std::string& name, std::vector<std::shared_ptr<comm::Communicator>> groups);
  // The state is on some ranks of a pipeline alone; before `declare`, which is for those. `group`:
  // of the pipeline's axis; `place`: this rank's.
  void put_on_stages(const trace::State& state, int place,
                     std::shared_ptr<comm::Communicator> group);
  // Makes this rank's part of a flat range, unless it is there. `members`: the states, some order.
  // UserError when one of them is not given.
  void declare(const ir::FlatStates& range, const std::vector<trace::State>& members,
               std::shared_ptr<comm::Communicator> group);

  // States by the model's names. The value of one that is sharded, or on another stage, comes from
  // others: all ranks of its axes call this, for the same states in the same order.
  ir::Literal get(const std::string& name) const;
  void set(const std::string& name, const ir::Literal& value);
  ir::TensorType type(const std::string& name) const;
  std::vector<std::string> names() const;
  // Where the newest value lies; empty: it is not made yet.
  std::string device(const std::string& name) const;

  HostStates& host() { return host_; }
  CpuStates& cpu() { return cpu_; }
  // Made when first asked for; UserError where no GPU can be used.
  StateStorage& cuda(int local_rank);

  // Before a run on `storage`: brings the newest values of these states there.
  void bring(const std::vector<std::string>& states, StateStorage& storage);
  // After it: these have changed there.
  void changed(const std::vector<std::string>& states, StateStorage& storage);

 private:
  struct Slot {
    ir::TensorType type;
    std::vector<StateStorage*> current;             // who has the newest value, if anyone
    std::function<ir::Literal()> initial;           // where nobody has it yet
    std::optional<trace::Initializer> initializer;  // that makes it, from the session's seed
  };
  const Slot& slot(const std::string& name) const;
  ir::Literal value(const std::string& name, const Slot& slot) const;
  ir::Literal here(const std::string& name) const;              // of a stage's states
  ir::Literal part(const std::string& name) const;              // what this rank has of it
  ir::TensorType declared_type(const std::string& name) const;  // as functions have it
  ir::TensorType part_type(const std::string& name) const;
  void write(const std::string& name, const ir::Literal& value);

  int64_t seed_;
  HostStates host_;
  CpuStates cpu_;
  std::unique_ptr<StateStorage> cuda_;
  std::map<std::string, Slot> slots_;  // by the names of graphs
  FlatRangeStates flat_;
  TensorShardStates divided_;
  RankStates apart_;
  StageStates staged_;
  // The range gathered last: its states are mostly read one after the other.
  mutable std::pair<std::string, ir::Literal> gathered_;
};

}  // namespace monograph::session
