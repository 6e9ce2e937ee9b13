#pragma once

#include <array>
#include <map>
#include <string>

#include "frontend/trace/state.h"
#include "ir/literal.h"
#include "passes/memory/layout.h"
#include "runtime/cpu/aligned_memory.h"
#include "runtime/cpu/executor.h"
#include "runtime/interpreter.h"

namespace monograph::session {

// Where the states of a session lie for one backend; all executables of that backend share it.
class StateStorage {
 public:
  virtual ~StateStorage() = default;
  virtual std::string device() const { return "cpu"; }  // whose memory it is
  virtual void write(const std::string& name, const ir::Literal& value) = 0;
  // Writes how a state of this type begins, if that is cheaper here than to be given it; otherwise
  // false.
  virtual bool write_initial(const std::string&, const ir::TensorType&, const trace::Initializer&,
                             int64_t /*seed*/) {
    return false;
  }
  virtual ir::Literal read(const std::string& name) const = 0;
};

class HostStates : public StateStorage {
 public:
  void write(const std::string& name, const ir::Literal& value) override { map_[name] = value; }
  ir::Literal read(const std::string& name) const override { return map_.at(name); }
  runtime::StateMap& map() { return map_; }

 private:
  runtime::StateMap map_;
};

// The segments of weights, moments and buffers, laid out by the compiler.
class CpuStates : public StateStorage {
 public:
  // Compiling adds states to it; then call fit_layout.
  passes::StateLayout& layout() { return layout_; }
  // Moves the segments into larger memory where the layout has outgrown it.
  void fit_layout();
  const runtime::SegmentBases& bases() const { return bases_; }
  int64_t num_moves() const { return num_moves_; }  // bases() changed so often

  void write(const std::string& name, const ir::Literal& value) override;
  ir::Literal read(const std::string& name) const override;

 private:
  std::byte* address(const passes::StateLayout::Entry& entry) const;

  passes::StateLayout layout_;
  std::array<runtime::AlignedMemory, ir::kNumSegments> memory_;
  runtime::SegmentBases bases_ = {};
  int64_t num_moves_ = 0;
};

}  // namespace monograph::session
