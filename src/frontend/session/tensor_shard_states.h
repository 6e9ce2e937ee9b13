#pragma once

#include <map>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "ir/literal.h"
#include "ir/tensor_shard.h"

namespace monograph::session {

// Which states lie as parts along one dim (see ir::TensorShard), and the way to the whole and back.
class TensorShardStates {
 public:
  struct Home {
    ir::TensorShard shard;
    ir::TensorType whole;
    std::shared_ptr<comm::Communicator> group;  // of the axis; null: nothing runs

    ir::TensorType part_type() const { return {whole.dtype, shard.part_of(whole.shape)}; }
  };
  void add(const std::string& name, Home home) { homes_[name] = std::move(home); }
  const Home* find(const std::string& name) const;  // null: every rank has the whole

  // This rank's part.
  static ir::Literal cut(const Home& home, const ir::Literal& whole);
  // From the parts of all ranks: each of them calls this. UserError without a group.
  static ir::Literal gather(const Home& home, const std::string& name, const ir::Literal& part);

 private:
  std::map<std::string, Home> homes_;
};

}  // namespace monograph::session
