#include "diagnose/timeline/late_calls.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace monograph::diagnose {
namespace {

constexpr int64_t kLateShare = 10;  // a tenth of a step
constexpr int64_t kLeastNs = 100'000;
constexpr int64_t kFollowsNs = 20'000;

int64_t median(std::vector<int64_t> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What is compared between steps.
struct Call {
  int32_t step = 0;
  int64_t offset_ns = 0;   // from the first work of its step
  int64_t launch_ns = -1;  // from the start of its step on the host
  int64_t duration_ns = 0;
  int64_t computation_ns = 0;  // of kernels of the step that began before it
  int64_t before_ns =
      0;  // duration of the collective right before it on its stream, 0 if there is none
  std::map<uint32_t, int64_t> kernels;  // name -> time, of those kernels
};

using Kind = std::tuple<std::string, std::string, int64_t,
                        int>;  // operation, group, elements, place in its step

struct Tables {
  std::map<Kind, std::vector<Call>> calls;
  std::vector<int64_t> walls;  // of each step that has work
};

// Walks the work of one step in order of start.
void add_step(const Timeline& timeline, const std::vector<const Span*>& spans, Tables& tables) {
  int64_t begin = spans.front()->start_ns;
  int64_t end = begin;
  int64_t computation = 0;
  std::map<uint32_t, int64_t> kernels;
  std::map<std::pair<int16_t, int32_t>, const Span*> last;  // collective of each stream
  std::map<std::tuple<std::string, std::string, int64_t>, int> places;
  for (const Span* span : spans) {
    end = std::max(end, span->end_ns);
    if (span->activity == Activity::kCompute) {
      computation += span->duration_ns();
      kernels[span->name] += span->duration_ns();
    }
    if (span->activity != Activity::kCollective || span->detail < 0) continue;
    const CollectiveInfo& info = timeline.collectives[static_cast<size_t>(span->detail)];
    int64_t elements = std::max(info.num_elements_in, info.num_elements_out);
    int place = places[{info.op, info.group, elements}]++;
    const Span*& before = last[{span->device, span->stream}];
    bool follows = before != nullptr && span->start_ns - before->end_ns <= kFollowsNs;
    const Step& step = timeline.steps[static_cast<size_t>(span->step)];
    tables.calls[{info.op, info.group, elements, place}].push_back(
        {span->step, span->start_ns - begin,
         span->launch_ns < 0 ? -1 : span->launch_ns - step.start_ns, span->duration_ns(),
         computation, follows ? before->duration_ns() : 0, kernels});
    before = span;
  }
  tables.walls.push_back(end - begin);
}

template <typename Value>
int64_t median_of(const std::vector<Call>& calls, Value value) {
  std::vector<int64_t> values;
  for (const Call& call : calls) values.push_back(value(call));
  return median(std::move(values));
}

// The kernel whose time before the call exceeds its median most.
std::string grown_kernel(const Timeline& timeline, const std::vector<Call>& calls,
                         const Call& late) {
  std::string name;
  int64_t most = 0;
  for (const auto& [id, time] : late.kernels) {
    int64_t usual = median_of(calls, [id = id](const Call& call) {
      auto found = call.kernels.find(id);
      return found == call.kernels.end() ? int64_t{0} : found->second;
    });
    if (time - usual > most) {
      most = time - usual;
      name = timeline.names[id];
    }
  }
  return name;
}

void explain(const Timeline& timeline, const std::vector<Call>& calls, const Call& call,
             LateCall& late) {
  using Why = LateCall::Why;
  int64_t host = call.launch_ns < 0
                     ? 0
                     : call.launch_ns - median_of(calls, [](const Call& c) { return c.launch_ns; });
  int64_t computation =
      call.computation_ns - median_of(calls, [](const Call& c) { return c.computation_ns; });
  int64_t before = call.before_ns == 0 ? 0 : call.before_ns - median_of(calls, [](const Call& c) {
                                               return c.before_ns;
                                             });
  for (auto [cause, why] : {std::pair(computation, Why::kKernel), std::pair(before, Why::kStream),
                            std::pair(host, Why::kHost)}) {
    if (cause * 2 < late.late_ns || cause <= late.cause_ns) continue;
    late.cause_ns = cause;
    late.why = why;
  }
  if (late.why == Why::kKernel) late.kernel = grown_kernel(timeline, calls, call);
}

}  // namespace

std::vector<LateCall> late_calls(const Timeline& timeline) {
  std::vector<std::vector<const Span*>> steps(timeline.steps.size());
  for (const Span& span : timeline.spans) {
    if (span.step >= 0) steps[static_cast<size_t>(span.step)].push_back(&span);
  }
  Tables tables;
  for (const auto& spans : steps) {
    if (!spans.empty()) add_step(timeline, spans, tables);
  }
  if (tables.walls.size() < 3) return {};
  int64_t limit = std::max(kLeastNs, median(tables.walls) / kLateShare);
  std::vector<std::pair<int64_t, LateCall>> found;  // with the offset in its step
  for (const auto& [kind, calls] : tables.calls) {
    if (calls.size() < 3) continue;
    int64_t offset = median_of(calls, [](const Call& c) { return c.offset_ns; });
    int64_t duration = median_of(calls, [](const Call& c) { return c.duration_ns; });
    for (const Call& call : calls) {
      LateCall late;
      late.late_ns = call.offset_ns - offset;
      bool slow = call.duration_ns - duration >= limit;
      if (late.late_ns < limit && !slow) continue;
      const auto& [op, group, elements, place] = kind;
      late.step = timeline.steps[static_cast<size_t>(call.step)].name;
      late.op = op;
      late.group = group;
      late.num_elements = elements;
      if (late.late_ns >= limit) {
        explain(timeline, calls, call, late);
      } else {
        late.late_ns = late.cause_ns = call.duration_ns - duration;
        late.why = LateCall::Why::kPeers;
      }
      found.emplace_back(call.offset_ns, std::move(late));
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::set<std::pair<std::string, LateCall::Why>> seen;
  std::vector<LateCall> result;
  for (auto& [offset, late] : found) {
    if (seen.insert({late.step, late.why}).second) result.push_back(std::move(late));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const LateCall& a, const LateCall& b) { return a.late_ns > b.late_ns; });
  return result;
}

}  // namespace monograph::diagnose
