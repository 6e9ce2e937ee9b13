#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// What ran on the devices of one rank, whatever profiler recorded it. Readers fill a Timeline,
// analyses read it.
namespace monograph::diagnose {

enum class Activity : uint8_t { kCompute, kCollective, kCopy, kMemset };

// One piece of work on a device. Times are nanoseconds on the trace's own clock.
struct Span {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t launch_ns = -1;  // when the host call that launched it began; -1 is unknown
  uint32_t name = 0;       // index into Timeline::names
  int32_t detail = -1;     // index into collectives or copies, by activity; -1 is none
  int32_t stream = 0;
  int32_t step = -1;  // index into steps; -1 is outside of all
  int16_t device = 0;
  Activity activity = Activity::kCompute;

  int64_t duration_ns() const { return end_ns - start_ns; }
};

// What the trace says of a collective beside its kernel; -1 and empty are unknown.
struct CollectiveInfo {
  std::string op;     // all_reduce
  std::string group;  // name of the process group
  std::string description;
  std::string dtype;
  int64_t group_size = -1;
  int64_t num_elements_in = -1;
  int64_t num_elements_out = -1;
  int64_t sequence = -1;
  int64_t input_address = 0;
};

struct CopyInfo {
  int64_t num_bytes = -1;
  bool pageable = false;
};

// One iteration as the user marked it (ProfilerStep#5, an NVTX range), in host time.
struct Step {
  std::string name;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

struct Timeline {
  std::string source;  // the file
  std::string format;  // "Kineto" or "Nsight Systems"
  int rank = -1;       // -1 is unknown
  int world_size = -1;
  int64_t base_ns = 0;  // add to get unix time; 0 is unknown
  std::vector<std::string> names;
  std::vector<Span> spans;  // sorted by start
  std::vector<CollectiveInfo> collectives;
  std::vector<CopyInfo> copies;
  std::vector<Step> steps;  // sorted by start, disjoint
  int64_t num_events = 0;   // read from the file
  int64_t num_skipped = 0;  // damaged ones among them
  bool is_truncated = false;

  std::string_view name_of(const Span& span) const { return names[span.name]; }
};

// Collects spans and names while a file is read, then makes the Timeline consistent.
class TimelineBuilder {
 public:
  Timeline timeline;

  uint32_t name_id(std::string_view name);
  void add(const Span& span, int64_t correlation);
  // The host call that launched the work with this correlation number.
  void add_launch(int64_t correlation, int64_t start_ns);
  void add_step(std::string_view name, int64_t start_ns, int64_t end_ns);

  // Sorts, finds each span's launch and step. A span belongs to the step in which it was launched;
  // in a trace without launches, to that in which it began. What was launched before the trace
  // began belongs to none.
  Timeline finish();

 private:
  struct Launch {
    int64_t correlation = 0;
    int64_t start_ns = 0;
    auto operator<=>(const Launch&) const = default;
  };
  // When the work with this correlation number was launched; -1 if that is not known.
  int64_t launch_of(int64_t correlation) const;

  std::map<std::string, uint32_t, std::less<>> ids_;
  std::vector<int64_t> correlations_;  // of the spans
  std::vector<Launch> launches_;       // sorted by finish()
};

// What a kernel of this name does. Copies and memsets that are kernels of their own (hipMemcpy...)
// count as such; collectives are those of NCCL, RCCL and HCCL and the known custom ones (symmetric
// memory, vLLM, DeepEP).
Activity classify_kernel(std::string_view name);

// The operation in a collective kernel's name: all_reduce from
// ncclDevKernel_AllReduce_Sum_f32_RING_LL(...).
std::string collective_op(std::string_view kernel_name);

}  // namespace monograph::diagnose
