#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontend/session/executable.h"
#include "frontend/trace/state.h"

namespace monograph::session {

// The states of a session. Each executable has storage of its own; the newest value lies on the
// host or in the executable that wrote it last, and moves only when another one needs it.
class StateStore {
 public:
  explicit StateStore(int64_t seed) : seed_(seed) {}

  // Makes the state with its initial value, unless it is there. UserError when it is there with
  // another type.
  void declare(const trace::State& state);

  ir::Literal get(const std::string& name) const;
  void set(const std::string& name, const ir::Literal& value);
  std::vector<std::string> names() const;

  // The storage of one executable, as the store knows it.
  struct Residence {
    std::shared_ptr<Executable> executable;
    std::vector<std::string> states;   // all that it reads
    std::vector<std::string> updated;  // those that a run changes
    std::map<std::string, uint64_t> versions;
  };
  // Writes the newest value of each state into the executable where its own is older.
  void bring(Residence& residence);
  // After a run: its updated states are the newest.
  void ran(Residence& residence);

 private:
  struct Slot {
    ir::Literal host;  // the newest value if `holder` is null; its type otherwise too
    std::shared_ptr<Executable> holder;
    uint64_t version = 1;
  };
  const Slot& slot(const std::string& name) const;

  int64_t seed_;
  std::map<std::string, Slot> slots_;
};

}  // namespace monograph::session
