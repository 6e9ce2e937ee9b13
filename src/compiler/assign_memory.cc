#include "compiler/assign_memory.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace monograph::compiler {
namespace {

using ir::Address;
using ir::Segment;

// Until then, an address in scratch has its buffer's number in the upper bits.
constexpr int kBufferShift = 44;  // a buffer has at most 16 TiB

}  // namespace

int buffer_of(const Address& address) {
  return static_cast<int>(address.offset >> kBufferShift);
}

int64_t bytes_in_buffer(const Address& address) {
  return address.offset & ((int64_t{1} << kBufferShift) - 1);
}

namespace {

// Lifetimes of the buffers that some step names, and of their parts.
class Lifetimes {
 public:
  explicit Lifetimes(const std::vector<passes::LayoutBuffer>& buffers) : buffers_(buffers) {}

  void access(const Address& address, int at_step) {
    const passes::LayoutBuffer& buffer = buffers_[buffer_of(address)];
    const auto [found, is_new] = number_.emplace(buffer_of(address), lifetimes_.size());
    if (is_new) {
      passes::Lifetime lifetime{buffer.num_bytes, at_step, at_step, {}};
      for (size_t i = 0; i < buffer.parts.size(); ++i) {
        const bool is_last = i + 1 == buffer.parts.size();
        const int64_t end = is_last ? buffer.num_bytes : buffer.parts[i + 1];
        lifetime.parts.push_back({buffer.parts[i], end - buffer.parts[i], kNever});
      }
      lifetimes_.push_back(std::move(lifetime));
    }
    passes::Lifetime& lifetime = lifetimes_[found->second];
    lifetime.end = at_step;
    if (lifetime.parts.empty()) return;
    const auto part =
        std::upper_bound(buffer.parts.begin(), buffer.parts.end(), bytes_in_buffer(address)) -
        buffer.parts.begin() - 1;
    int& begin = lifetime.parts[part].begin;
    begin = std::min(begin, at_step);
  }

  // A part that no step names by itself is written with another: it lives as long as the whole.
  std::vector<passes::Lifetime> take() {
    for (passes::Lifetime& lifetime : lifetimes_) {
      for (auto& part : lifetime.parts) {
        if (part.begin == kNever) part.begin = lifetime.begin;
      }
    }
    return std::move(lifetimes_);
  }

  size_t number(int buffer) const { return number_.at(buffer); }

 private:
  static constexpr int kNever = std::numeric_limits<int>::max();
  const std::vector<passes::LayoutBuffer>& buffers_;
  std::vector<passes::Lifetime> lifetimes_;
  std::unordered_map<int, size_t> number_;  // buffer -> lifetime
};

}  // namespace

Address address_in_buffer(int buffer, int64_t bytes) {
  return {Segment::kScratch, (static_cast<int64_t>(buffer) << kBufferShift) + bytes};
}

std::vector<passes::Lifetime> assign_memory(ir::Program& program,
                                            const std::vector<passes::LayoutBuffer>& buffers) {
  Lifetimes found(buffers);
  const int num_steps = static_cast<int>(program.steps.size());
  for (int at_step = 0; at_step < num_steps; ++at_step) {
    for_each_address(program.steps[at_step], [&](Address& address) {
      if (address.segment == Segment::kScratch) found.access(address, at_step);
    });
  }
  std::vector<passes::Lifetime> lifetimes = found.take();
  const passes::OffsetPlan plan = passes::assign_offsets(lifetimes);
  for (ir::Step& step : program.steps) {
    for_each_address(step, [&](Address& address) {
      if (address.segment != Segment::kScratch) return;
      const size_t number = found.number(buffer_of(address));
      address.offset = plan.offsets[number] + bytes_in_buffer(address);
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
