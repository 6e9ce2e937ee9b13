#include <fstream>

#include "base/error.h"
#include "frontend/session/cuda_backend.h"
#include "runtime/cuda/timeline.h"

namespace monograph::session {
namespace {

std::string text(const runtime::GpuSummary& summary) {
  constexpr size_t kMaxRows = 12, kMaxGaps = 3;
  std::string result =
      fmt::format("GPU busy {:.2f} % of {:.3f} ms, {} kernels, copies and fills\n",
                  100 * summary.busy_share(), summary.window_ms, summary.num_activities);
  if (summary.communication_ms > 0) {
    result += fmt::format("communication {:.3f} ms, {:.3f} ms of it exposed\n",
                          summary.communication_ms, summary.exposed_ms);
  }
  for (size_t i = 0; i < summary.rows.size() && i < kMaxRows; ++i) {
    const auto& row = summary.rows[i];
    result += fmt::format("{:>9.3f} ms {:>6} times  {:.90}\n", row.ms, row.num_calls, row.name);
  }
  for (size_t i = 0; i < summary.longest_gaps.size() && i < kMaxGaps; ++i) {
    const auto& gap = summary.longest_gaps[i];
    result +=
        fmt::format("idle {:>9.3f} ms between {:.40} and {:.40}\n", gap.ms, gap.before, gap.after);
  }
  return result;
}

}  // namespace

std::function<std::string(const std::string&)> start_gpu_timeline() {
  return [timeline = std::make_shared<runtime::GpuTimeline>()](const std::string& path) {
    const std::vector<runtime::GpuActivity> activities = timeline->stop();
    std::ofstream file(path);
    file << runtime::to_trace_json(activities);
    if (!file.flush()) throw_user_error("cannot write the timeline to {}", path);
    return text(runtime::summarize(activities));
  };
}

}  // namespace monograph::session
