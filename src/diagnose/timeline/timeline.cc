#include "diagnose/timeline/timeline.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "diagnose/line_scan.h"

namespace monograph::diagnose {

uint32_t TimelineBuilder::name_id(std::string_view name) {
  auto found = ids_.find(name);
  if (found != ids_.end()) return found->second;
  timeline.names.emplace_back(name);
  return ids_.emplace(name, static_cast<uint32_t>(ids_.size())).first->second;
}

void TimelineBuilder::add(const Span& span, int64_t correlation) {
  timeline.spans.push_back(span);
  correlations_.push_back(correlation);
}

void TimelineBuilder::add_launch(int64_t correlation, int64_t start_ns) {
  launches_.push_back({correlation, start_ns});
}

void TimelineBuilder::add_step(std::string_view name, int64_t start_ns, int64_t end_ns) {
  timeline.steps.push_back({std::string(name), start_ns, end_ns});
}

int64_t TimelineBuilder::launch_of(int64_t correlation) const {
  auto found = std::lower_bound(launches_.begin(), launches_.end(), Launch{correlation, INT64_MIN});
  bool is_known = correlation != 0 && found != launches_.end() && found->correlation == correlation;
  return is_known ? found->start_ns : -1;
}

Timeline TimelineBuilder::finish() {
  std::sort(launches_.begin(), launches_.end());
  std::vector<Step>& steps = timeline.steps;
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
    return std::tie(a.start_ns, b.end_ns) < std::tie(b.start_ns, a.end_ns);
  });
  // The same step is marked on several threads; the outermost mark stands.
  std::vector<Step> disjoint;
  for (Step& step : steps) {
    if (disjoint.empty() || step.start_ns >= disjoint.back().end_ns)
      disjoint.push_back(std::move(step));
  }
  steps = std::move(disjoint);
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    Span& span = timeline.spans[i];
    span.launch_ns = launch_of(correlations_[i]);
    if (span.launch_ns < 0 && !launches_.empty()) continue;
    int64_t when = span.launch_ns >= 0 ? span.launch_ns : span.start_ns;
    auto after = std::upper_bound(steps.begin(), steps.end(), when,
                                  [](int64_t at, const Step& step) { return at < step.start_ns; });
    if (after != steps.begin() && when < std::prev(after)->end_ns) {
      span.step = static_cast<int32_t>(std::prev(after) - steps.begin());
    }
  }
  std::sort(timeline.spans.begin(), timeline.spans.end(), [](const Span& a, const Span& b) {
    return std::tie(a.start_ns, a.end_ns, a.stream) < std::tie(b.start_ns, b.end_ns, b.stream);
  });
  return std::move(timeline);
}

Activity classify_kernel(std::string_view name) {
  if (name.starts_with("void ")) name.remove_prefix(5);
  if (name.starts_with("nccl") || name.starts_with("rccl") || name.starts_with("hccl") ||
      name.starts_with("oneccl") || name.starts_with("collective_subgraph_execution")) {
    return Activity::kCollective;
  }
  static constexpr std::array<std::string_view, 12> kCustom{
      "ncclKernel",    "ncclDevKernel", "ncclSymk",  "cross_device_reduce",
      "one_shot_all_", "two_shot_all_", "multimem_", "allreduce_fusion_kernel",
      "deep_ep::",     "nvshmem",       "symm_mem_", "lamport_all_reduce"};
  for (std::string_view part : kCustom) {
    if (has(name, part)) return Activity::kCollective;
  }
  if (name.starts_with("Memcpy") || name.starts_with("hipMemcpy") || name.starts_with("dma")) {
    return Activity::kCopy;
  }
  if (name.starts_with("Memset") || name.starts_with("hipMemset")) return Activity::kMemset;
  return Activity::kCompute;
}

std::string collective_op(std::string_view kernel_name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kOps{{
      {"AllReduce", "all_reduce"},
      {"AllGather", "all_gather"},
      {"ReduceScatter", "reduce_scatter"},
      {"SendRecv", "send_recv"},
      {"AlltoAll", "all_to_all"},
      {"AllToAll", "all_to_all"},
      {"Broadcast", "broadcast"},
      {"Reduce", "reduce"},
      {"all_reduce", "all_reduce"},
      {"allreduce", "all_reduce"},
      {"all_gather", "all_gather"},
      {"reduce_scatter", "reduce_scatter"},
      {"cross_device_reduce", "all_reduce"},
      {"dispatch", "all_to_all"},
      {"combine", "all_to_all"},
      {"Gather", "gather"},
  }};
  kernel_name = kernel_name.substr(0, kernel_name.find('('));
  for (auto [part, op] : kOps) {
    if (has(kernel_name, part)) return std::string(op);
  }
  return "collective";
}

}  // namespace monograph::diagnose
