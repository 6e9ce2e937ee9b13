#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "ir/literal.h"

namespace monograph::session {

// Which states each rank has one of its own of, such as gradients that it has not sent yet. A
// session knows them as [ranks, ...], in the order of ranks.
class RankStates {
 public:
  // `groups`: of the mesh axes, the last changes fastest; none: one rank. Given again, as for
  // another mesh, they replace those before.
  void add(const std::string& name, std::vector<std::shared_ptr<comm::Communicator>> groups) {
    groups_[name] = std::move(groups);
  }
  bool contains(const std::string& name) const { return groups_.contains(name); }

  ir::TensorType whole_type(const std::string& name, const ir::TensorType& own) const;
  // This rank's own.
  ir::Literal cut(const std::string& name, const ir::Literal& whole) const;
  // Of all ranks: each of them calls this.
  ir::Literal gather(const std::string& name, const ir::Literal& own) const;

 private:
  std::map<std::string, std::vector<std::shared_ptr<comm::Communicator>>> groups_;
};

}  // namespace monograph::session
