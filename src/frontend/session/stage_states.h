#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "ir/literal.h"

namespace monograph::session {

// Which states are on some ranks of a pipeline alone (see nn::pipeline), and the way to the others.
class StageStates {
 public:
  struct Home {
    ir::TensorType type;
    bool is_here = true;
    int first = 0;                              // the first place on the axis that has it
    std::shared_ptr<comm::Communicator> group;  // of the axis; null: nothing runs
  };
  void add(const std::string& name, Home home) { homes_[name] = std::move(home); }
  const Home* find(const std::string& name) const;  // null: every rank has it
  // Of those that are elsewhere.
  std::vector<std::string> names_elsewhere() const;

  // The value, from the rank that has it: each of the group calls this. `own`: what this rank has;
  // not read where it has none. UserError without a group, for a state that is elsewhere.
  static ir::Literal fetch(const Home& home, const std::string& name, ir::Literal own);

 private:
  std::map<std::string, Home> homes_;
};

}  // namespace monograph::session
