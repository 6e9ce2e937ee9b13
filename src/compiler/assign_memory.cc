#include "compiler/assign_memory.h"

#include <unordered_map>

namespace monograph::compiler {
namespace {

using ir::Address;
using ir::Segment;

// Until then, an address in scratch has its buffer's number in the upper bits.
constexpr int kBufferShift = 44;  // a buffer has at most 16 TiB

int buffer_of(const Address& address) {
  return static_cast<int>(address.offset >> kBufferShift);
}

}  // namespace

Address address_in_buffer(int buffer, int64_t bytes) {
  return {Segment::kScratch, (static_cast<int64_t>(buffer) << kBufferShift) + bytes};
}

std::vector<passes::Lifetime> assign_memory(ir::Program& program,
                                            const std::vector<passes::LayoutBuffer>& buffers) {
  std::vector<passes::Lifetime> lifetimes;
  std::unordered_map<int, int> number;  // buffer -> lifetime
  const int num_steps = static_cast<int>(program.steps.size());
  for (int at_step = 0; at_step < num_steps; ++at_step) {
    for_each_address(program.steps[at_step], [&](Address& address) {
      if (address.segment != Segment::kScratch) return;
      const int buffer = buffer_of(address);
      const auto [found, is_new] = number.emplace(buffer, lifetimes.size());
      if (is_new) lifetimes.push_back({buffers[buffer].num_bytes, at_step, at_step});
      lifetimes[found->second].end = at_step;
    });
  }
  const passes::OffsetPlan plan = passes::assign_offsets(lifetimes);
  for (ir::Step& step : program.steps) {
    for_each_address(step, [&](Address& address) {
      if (address.segment != Segment::kScratch) return;
      const int64_t inside = address.offset & ((int64_t{1} << kBufferShift) - 1);
      address.offset = plan.offsets[number.at(buffer_of(address))] + inside;
    });
  }
  int64_t persistent = 0;
  for (int segment = 0; segment < ir::kNumSegments; ++segment) {
    program.segment_bytes[segment] = buffers[segment].num_bytes;
    persistent += buffers[segment].num_bytes;
  }
  program.segment_bytes[static_cast<int>(Segment::kScratch)] = plan.peak_bytes;
  program.peak_bytes = persistent + plan.peak_bytes;
  program.bound_bytes = persistent + plan.bound_bytes;
  return lifetimes;
}

}  // namespace monograph::compiler
