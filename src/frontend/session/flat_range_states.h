#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "ir/flat_unit.h"
#include "ir/literal.h"

namespace monograph::session {

// Which states a session knows by name and has as a part of a flat range (see ir::FlatUnit), and
// the way between the two.
class FlatRangeStates {
 public:
  struct Range {
    ir::FlatStates states;
    std::shared_ptr<comm::Communicator> group;  // of the unit's axis; null: nothing runs
    int64_t first() const { return rank() * states.unit->shard_elements(); }
    int rank() const { return group == nullptr ? 0 : group->rank(); }
  };
  struct Home {
    const Range* range = nullptr;
    int64_t offset = 0;  // elements, in the whole range
    ir::TensorType type;
  };

  void add(ir::FlatStates states, std::shared_ptr<comm::Communicator> group);
  const Home* find(const std::string& name) const;  // null: not a part of a range
  bool is_range(const std::string& name) const { return ranges_.contains(name); }
  const Range& range(const std::string& name) const { return ranges_.at(name); }
  std::vector<std::string> names() const;  // of the states

  // Copies what this rank has of the state into, or from, its part of the range.
  static void write(const Home& home, const ir::Literal& value, ir::Literal& part);
  // The whole range, from the parts of all ranks: each of them calls this. UserError without a
  // group.
  static ir::Literal gather(const Range& range, const ir::Literal& part);
  static ir::Literal read(const Home& home, const ir::Literal& whole);

 private:
  std::map<std::string, Range> ranges_;  // by the name of the part
  std::map<std::string, Home> homes_;
};

}  // namespace monograph::session
