#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace monograph::runtime {

// One kernel, copy or fill as it ran on the GPU.
struct GpuActivity {
  std::string name;
  const char* category = "kernel";  // kernel, copy, fill
  int64_t start_ns = 0, end_ns = 0;
  int64_t stream = 0, num_bytes = 0;  // bytes of copies and fills
};

struct GpuSummary {
  int64_t num_activities = 0;
  double window_ms = 0;  // from the first kernel's start to the last end
  double busy_ms = 0;    // with at least one activity
  struct Gap {
    double ms = 0;
    std::string before, after;  // the activities around it
  };
  std::vector<Gap> longest_gaps;
  struct Row {
    std::string name;
    int64_t num_calls = 0;
    double ms = 0;
  };
  std::vector<Row> rows;  // by name, the most time first
  // By NCCL's kernels; exposed: while no other kernel ran. Over all streams, time counted once.
  double communication_ms = 0, exposed_ms = 0;
  double busy_share() const { return window_ms > 0 ? busy_ms / window_ms : 0; }
};
GpuSummary summarize(std::vector<GpuActivity> activities);

// A timeline that Perfetto and chrome://tracing open: {"traceEvents": [...]}.
std::string to_trace_json(const std::vector<GpuActivity>& activities);

// Records what the GPU does, by CUPTI, from its making to stop(). One at a time. Costs some time
// for each kernel, so times of whole steps are taken without it.
class GpuTimeline {
 public:
  GpuTimeline();  // UserError when there is no CUPTI library, or another program records
  ~GpuTimeline();
  GpuTimeline(const GpuTimeline&) = delete;
  GpuTimeline& operator=(const GpuTimeline&) = delete;

  std::vector<GpuActivity> stop();  // in order of start
};

}  // namespace monograph::runtime
