#include "frontend/session/state_storage.h"

#include <cstring>

#include "base/error.h"

namespace monograph::session {

void CpuStates::fit_layout() {
  for (size_t s = 0; s < memory_.size(); ++s) {
    const int64_t needed = layout_.segment_bytes[s];
    if (needed <= memory_[s].num_bytes()) continue;
    runtime::AlignedMemory larger(needed);
    if (memory_[s].data() != nullptr) {
      std::memcpy(larger.data(), memory_[s].data(), memory_[s].num_bytes());
    }
    memory_[s] = std::move(larger);
    bases_[s] = memory_[s].data();
    ++num_moves_;
  }
}

std::byte* CpuStates::address(const passes::StateLayout::Entry& entry) const {
  const auto segment = static_cast<size_t>(entry.address.segment);
  check(entry.address.offset + entry.type.num_bytes() <= memory_[segment].num_bytes(),
        "a state at {}+{} is outside its memory", ir::segment_name(entry.address.segment),
        entry.address.offset);
  return bases_[segment] + entry.address.offset;
}

void CpuStates::write(const std::string& name, const ir::Literal& value) {
  const passes::StateLayout::Entry& entry = layout_.entries.at(name);
  check(entry.type == value.type(), "state '{}' is {}, written with {}", name, entry.type.str(),
        value.type().str());
  std::memcpy(address(entry), value.data(), value.type().num_bytes());
}

ir::Literal CpuStates::read(const std::string& name) const {
  const passes::StateLayout::Entry& entry = layout_.entries.at(name);
  ir::Literal value(entry.type);
  std::memcpy(value.data(), address(entry), entry.type.num_bytes());
  return value;
}

}  // namespace monograph::session
