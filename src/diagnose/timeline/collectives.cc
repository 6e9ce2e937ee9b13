#include "diagnose/timeline/collectives.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "diagnose/timeline/intervals.h"
#include "diagnose/timeline/overlap.h"

namespace monograph::diagnose {
namespace {

constexpr int64_t kLaunchNs = 50'000;   // launch to start on an idle stream
constexpr int64_t kFollowsNs = 20'000;  // end of one to start of what waited for it

const CollectiveInfo& info_of(const Timeline& timeline, const Span& span) {
  static const CollectiveInfo kNothing;
  return span.detail < 0 ? kNothing : timeline.collectives[static_cast<size_t>(span.detail)];
}

std::string group_of(const CollectiveInfo& info) {
  return info.description.empty() || info.description == "undefined" ? info.group
                                                                     : info.description;
}

int64_t elements_of(const CollectiveInfo& info) {
  return std::max(info.num_elements_in, info.num_elements_out);
}

// While the spans pass in order of start: what ended last, on each stream and among kernels.
struct Passed {
  std::map<std::pair<int16_t, int32_t>, int64_t> stream_end;  // of collectives
  int64_t busy_until = 0;
  std::vector<const Span*> recent_kernels;  // that may have ended shortly before now

  void add(const Span& span) {
    busy_until = std::max(busy_until, span.end_ns);
    if (span.activity == Activity::kCollective) {
      int64_t& end = stream_end[{span.device, span.stream}];
      end = std::max(end, span.end_ns);
    } else if (span.activity == Activity::kCompute) {
      if (recent_kernels.size() > 1024)
        recent_kernels.erase(recent_kernels.begin(), recent_kernels.begin() + 512);
      recent_kernels.push_back(&span);
    }
  }

  // A kernel of another stream that was still running when the collective began.
  const Span* running_kernel(const Span& span) const {
    for (auto kernel = recent_kernels.rbegin(); kernel != recent_kernels.rend(); ++kernel) {
      if ((*kernel)->end_ns > span.start_ns && (*kernel)->stream != span.stream) return *kernel;
    }
    return nullptr;
  }

  // The kernel of another stream whose end the collective followed.
  const Span* kernel_before(const Span& span) const {
    const Span* found = nullptr;
    for (const Span* kernel : recent_kernels) {
      bool follows =
          kernel->end_ns <= span.start_ns && span.start_ns - kernel->end_ns <= kFollowsNs;
      if (follows && kernel->stream != span.stream &&
          (found == nullptr || kernel->end_ns > found->end_ns)) {
        found = kernel;
      }
    }
    return found;
  }
};

LateReason reason_for(const Span& span, const Passed& passed, const Span*& kernel) {
  if (span.start_ns - span.launch_ns <= kLaunchNs) {
    return span.launch_ns > passed.busy_until ? LateReason::kHost : LateReason::kNotLate;
  }
  auto stream = passed.stream_end.find({span.device, span.stream});
  if (stream != passed.stream_end.end() && span.start_ns - stream->second <= kFollowsNs)
    return LateReason::kStream;
  kernel = passed.kernel_before(span);
  if (kernel != nullptr) return LateReason::kKernel;
  kernel = passed.running_kernel(span);
  return kernel != nullptr ? LateReason::kBusy : LateReason::kOther;
}

using Kind = std::tuple<std::string, std::string, int64_t>;

struct DriftTally {
  CollectiveDrift drift;
  std::map<uint32_t, int64_t> kernels;  // name -> how often waited for
  std::vector<int64_t> durations;
};

void tally(DriftTally& kind, const Span& span, const Passed& passed) {
  ++kind.drift.num_calls;
  kind.durations.push_back(span.duration_ns());
  if (span.launch_ns < 0) return;
  const Span* kernel = nullptr;
  LateReason reason = reason_for(span, passed, kernel);
  ++kind.drift.calls_by_reason[static_cast<size_t>(reason)];
  if (kernel != nullptr) ++kind.kernels[kernel->name];
  int64_t drift = std::max<int64_t>(0, span.start_ns - span.launch_ns);
  kind.drift.drift_ns += drift;
  kind.drift.max_drift_ns = std::max(kind.drift.max_drift_ns, drift);
}

// One rank's collective for the comparison of ranks.
struct Member {
  size_t timeline;
  int64_t duration_ns;
};

using MatchKey = std::tuple<std::string, std::string, int64_t>;  // operation, group, number

// The number a collective has on every rank: what PyTorch recorded, else its place among those of
// its kind.
std::vector<std::pair<MatchKey, int64_t>> numbered(const Timeline& timeline) {
  std::vector<std::pair<MatchKey, int64_t>> result;
  std::map<std::pair<std::string, std::string>, int64_t> seen;
  for (const Span& span : timeline.spans) {
    if (span.activity != Activity::kCollective) continue;
    const CollectiveInfo& info = info_of(timeline, span);
    std::string group = info.group.empty() ? info.description : info.group;
    int64_t place = seen[{info.op, group}]++;
    int64_t number = info.sequence >= 0 ? info.sequence : -1 - place;
    result.push_back({{info.op, group, number}, span.duration_ns()});
  }
  return result;
}

// Places count only where all ranks have as many of the kind: else the traces began at different
// calls.
void drop_unequal(std::map<MatchKey, std::vector<Member>>& matches, size_t num_timelines) {
  std::map<std::pair<std::string, std::string>, bool> equal;
  for (const auto& [key, members] : matches) {
    const auto& [op, group, number] = key;
    if (number < 0 && members.size() != num_timelines) equal[{op, group}] = false;
  }
  std::erase_if(matches, [&](const auto& entry) {
    const auto& [op, group, number] = entry.first;
    return number < 0 && equal.contains({op, group});
  });
}

}  // namespace

std::string_view name(LateReason reason) {
  switch (reason) {
    case LateReason::kNotLate:
      return "on time";
    case LateReason::kHost:
      return "host launched late";
    case LateReason::kStream:
      return "collective before it";
    case LateReason::kKernel:
      return "kernel before it";
    case LateReason::kBusy:
      return "device filled by";
    case LateReason::kOther:
      return "other";
  }
  return "";
}

std::vector<CollectiveDrift> collective_drifts(const Timeline& timeline) {
  std::map<Kind, DriftTally> kinds;
  Passed passed;
  for (const Span& span : timeline.spans) {
    if (span.activity == Activity::kCollective) {
      const CollectiveInfo& info = info_of(timeline, span);
      DriftTally& kind = kinds[{info.op, group_of(info), elements_of(info)}];
      kind.drift.op = info.op;
      kind.drift.group = group_of(info);
      kind.drift.num_elements = elements_of(info);
      tally(kind, span, passed);
    }
    passed.add(span);
  }
  std::vector<CollectiveDrift> result;
  for (auto& [key, kind] : kinds) {
    kind.drift.fastest_ns = *std::min_element(kind.durations.begin(), kind.durations.end());
    // Without sizes the calls do not compare.
    if (kind.drift.num_elements >= 0) {
      for (int64_t duration : kind.durations)
        kind.drift.peer_wait_ns += duration - kind.drift.fastest_ns;
    }
    auto most = std::max_element(kind.kernels.begin(), kind.kernels.end(),
                                 [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != kind.kernels.end()) kind.drift.kernel = timeline.names[most->first];
    result.push_back(std::move(kind.drift));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const CollectiveDrift& a, const CollectiveDrift& b) {
                     return a.drift_ns + a.peer_wait_ns > b.drift_ns + b.peer_wait_ns;
                   });
  return result;
}

std::vector<UselessCollective> useless_collectives(const Timeline& timeline) {
  using Why = UselessCollective::Why;
  std::map<std::tuple<Why, std::string, std::string, int64_t>, UselessCollective> found;
  auto count = [&](Why why, const CollectiveInfo& info, const Span& span) {
    UselessCollective& kind = found[{why, info.op, group_of(info), elements_of(info)}];
    kind = {why,
            info.op,
            group_of(info),
            elements_of(info),
            kind.num_calls + 1,
            kind.total_ns + span.duration_ns()};
  };
  const Span* last = nullptr;  // the last collective, as long as no kernel ran since
  for (const Span& span : timeline.spans) {
    if (span.activity == Activity::kCompute || span.activity == Activity::kCopy) last = nullptr;
    if (span.activity != Activity::kCollective) continue;
    const CollectiveInfo& info = info_of(timeline, span);
    if (info.op == "barrier") {
      last = nullptr;
      continue;
    }
    if (info.num_elements_in == 0 && info.num_elements_out <= 0) {
      count(Why::kEmpty, info, span);
    } else if (info.group_size == 1) {
      count(Why::kAlone, info, span);
    } else if (last != nullptr && info.input_address != 0) {
      const CollectiveInfo& before = info_of(timeline, *last);
      bool same = before.op == info.op && before.group == info.group &&
                  before.input_address == info.input_address &&
                  before.num_elements_in == info.num_elements_in && last->end_ns <= span.start_ns;
      if (same) count(Why::kRepeated, info, span);
    }
    last = &span;
  }
  std::vector<UselessCollective> result;
  for (auto& [key, kind] : found) result.push_back(std::move(kind));
  return result;
}

Arrivals compare_arrivals(const std::vector<const Timeline*>& timelines) {
  Arrivals arrivals;
  std::map<MatchKey, std::vector<Member>> matches;
  for (size_t i = 0; i < timelines.size(); ++i) {
    const Timeline& timeline = *timelines[i];
    Overlap overlap = total_overlap(timeline);
    arrivals.ranks.push_back(
        {timeline.rank, 0, 0, 0, overlap.computation_ns, device_idle(timeline).host_wait_ns});
    for (auto& [key, duration] : numbered(timeline)) matches[key].push_back({i, duration});
  }
  drop_unequal(matches, timelines.size());
  for (const auto& [key, members] : matches) {
    if (members.size() < 2) {
      ++arrivals.num_unmatched;
      continue;
    }
    ++arrivals.num_matched;
    auto by_duration = [](const Member& a, const Member& b) {
      return a.duration_ns < b.duration_ns;
    };
    auto [shortest, longest] = std::minmax_element(members.begin(), members.end(), by_duration);
    for (const Member& member : members) {
      arrivals.ranks[member.timeline].waited_ns += member.duration_ns - shortest->duration_ns;
    }
    int64_t wait = longest->duration_ns - shortest->duration_ns;
    if (wait < kLateNs) continue;
    ++arrivals.ranks[shortest->timeline].num_last;
    arrivals.ranks[shortest->timeline].made_wait_ns += wait;
  }
  return arrivals;
}

}  // namespace monograph::diagnose
