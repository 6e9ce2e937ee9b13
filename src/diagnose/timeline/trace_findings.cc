#include "diagnose/timeline/trace_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "diagnose/report_words.h"
#include "diagnose/timeline/copies.h"
#include "diagnose/timeline/late_calls.h"
#include "diagnose/timeline/overlap.h"

namespace monograph::diagnose {
namespace {

// Shares of the time of the trace, in percent, from which a cost is worth a finding.
constexpr double kExposedLimit = 10;
constexpr double kHostWaitLimit = 25;
constexpr double kOtherIdleLimit = 25;
constexpr double kCopyLimit = 2;
constexpr double kStragglerLimit = 2;
constexpr double kStragglerShare = 60;  // of all waits, that one rank causes
constexpr int64_t kTinyBytes = 64;      // a copy to the host of this size reads a number

std::string ms(int64_t ns) {
  return fmt::format("{:.3f} ms", static_cast<double>(ns) / 1e6);
}

// "all_reduce of 1024 elements", as far as the trace says how many.
std::string sized(const std::string& op, int64_t num_elements) {
  return num_elements < 0 ? op : fmt::format("{} of {} elements", op, num_elements);
}

double percent(int64_t part, int64_t whole) {
  return whole <= 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

class TraceFinder {
 public:
  explicit TraceFinder(const Timeline& timeline)
      : timeline_(timeline), overlap_(total_overlap(timeline)) {}

  std::vector<Finding> run() {
    exposed();
    idle();
    late();
    useless();
    pageable();
    tiny_reads();
    repeated();
    damaged();
    return std::move(findings_);
  }

 private:
  Finding& add(std::string_view code, int64_t cost_ns, std::string what, std::string why,
               std::string advice) {
    Finding finding;
    finding.code = code;
    finding.what = std::move(what);
    finding.why = std::move(why);
    finding.advice = std::move(advice);
    finding.weight = percent(cost_ns, overlap_.wall_ns);
    if (timeline_.rank >= 0) finding.where.ranks = {timeline_.rank};
    findings_.push_back(std::move(finding));
    return findings_.back();
  }

  void exposed() {
    int64_t exposed = overlap_.exposed_ns();
    if (percent(exposed, overlap_.wall_ns) < kExposedLimit) return;
    std::vector<CollectiveOverlap> kinds = collective_overlaps(timeline_);
    std::vector<CollectiveDrift> drifts = collective_drifts(timeline_);
    int64_t peer_wait = 0;
    std::array<int64_t, kNumLateReasons> reasons{};
    for (const CollectiveDrift& drift : drifts) {
      peer_wait += drift.peer_wait_ns;
      for (size_t i = 0; i < kNumLateReasons; ++i) reasons[i] += drift.calls_by_reason[i];
    }
    bool peers = peer_wait * 2 > exposed;
    Finding& finding =
        add("exposed_communication", exposed,
            fmt::format("{:.1f} % of the time is communication that no computation hides ({} of "
                        "{}; overlap {:.1f} %)",
                        percent(exposed, overlap_.wall_ns), ms(exposed),
                        ms(overlap_.communication_ns), overlap_.over_communication()),
            peers ? fmt::format("calls of the same kind and size take up to {} more in all than "
                                "the fastest: this rank waits in "
                                "them for others",
                                ms(peer_wait))
                  : fmt::format("{} of the exposed time is {}",
                                kinds.empty() ? "most" : ms(kinds[0].exposed_ns()),
                                kinds.empty()
                                    ? "collectives"
                                    : kinds[0].op +
                                          (kinds[0].group.empty() ? "" : " of " + kinds[0].group)),
            peers ? "give the traces of all ranks, to see which one comes late; balance its work "
                    "or its input"
                  : advice_for_exposed(reasons));
    for (size_t i = 0; i < kinds.size() && i < 4; ++i) {
      finding.evidence.push_back(fmt::format("{}{}: {}, {} of {} exposed", kinds[i].op,
                                             kinds[i].group.empty() ? "" : " of " + kinds[i].group,
                                             count_of(kinds[i].num_calls, "call"),
                                             ms(kinds[i].exposed_ns()), ms(kinds[i].total_ns)));
    }
    if (!kinds.empty()) finding.where.collective = kinds[0].op;
  }

  static std::string advice_for_exposed(const std::array<int64_t, kNumLateReasons>& reasons) {
    auto most = std::max_element(reasons.begin() + 1, reasons.end());
    switch (*most == 0 ? LateReason::kNotLate : static_cast<LateReason>(most - reasons.begin())) {
      case LateReason::kHost:
        return "the host launches them late: shorten what runs on the host before (CUDA graphs, "
               "torch.compile)";
      case LateReason::kStream:
        return "they queue behind each other: larger buckets, fewer of them, or another stream for "
               "one of the groups";
      case LateReason::kKernel:
        return "they wait for kernels: smaller buckets start earlier; prefetch all-gathers; "
               "reorder so that what is sent "
               "is ready first";
      case LateReason::kBusy:
        return "large kernels fill the device when they could begin: give NCCL a stream of high "
               "priority "
               "(TORCH_NCCL_HIGH_PRIORITY=1), or leave it SMs";
      default:
        return "start them earlier: gradient buckets, prefetching (FSDP backward_prefetch), or "
               "overlap in the compiler";
    }
  }

  void idle() {
    Idle idle = device_idle(timeline_);
    if (percent(idle.host_wait_ns, overlap_.wall_ns) >= kHostWaitLimit) {
      Finding& finding =
          add("device_waits_for_host", idle.host_wait_ns,
              fmt::format("the device is idle {:.1f} % of the time because the host has not "
                          "launched its next work",
                          percent(idle.host_wait_ns, overlap_.wall_ns)),
              "the host prepares and launches kernels more slowly than the device runs them",
              "compile the step or capture it in a CUDA graph (mode=\"reduce-overhead\"), use "
              "larger batches, load "
              "data in workers, and remove reads of device values (item(), print)");
      finding.evidence.push_back(idle_line(idle));
    }
    if (percent(idle.other_ns, overlap_.wall_ns) >= kOtherIdleLimit) {
      Finding& finding = add(
          "device_idle", idle.other_ns,
          fmt::format("the device is idle {:.1f} % of the time although its next work was launched",
                      percent(idle.other_ns, overlap_.wall_ns)),
          "work waits for an event, another stream or another process that the trace does not show",
          "look for synchronisation between streams and for collectives of other process groups");
      finding.evidence.push_back(idle_line(idle));
    }
  }

  static std::string idle_line(const Idle& idle) {
    return fmt::format("idle {}: host wait {}, kernel wait {}, other {}; {} gaps",
                       ms(idle.total_ns()), ms(idle.host_wait_ns), ms(idle.kernel_wait_ns),
                       ms(idle.other_ns), idle.num_gaps);
  }

  void late() {
    std::vector<LateCall> calls = late_calls(timeline_);
    if (calls.empty()) return;
    const LateCall& worst = calls.front();
    Finding& finding = add(
        "late_collective", worst.late_ns,
        fmt::format("{} in {} {} {} than in the other steps", sized(worst.op, worst.num_elements),
                    worst.step, worst.why == LateCall::Why::kPeers ? "takes" : "begins",
                    worst.why == LateCall::Why::kPeers ? ms(worst.late_ns) + " longer"
                                                       : ms(worst.late_ns) + " later"),
        why_late(worst), advice_for_late(worst.why));
    finding.count = static_cast<int64_t>(calls.size());
    finding.where.frame = worst.step;
    finding.where.collective = worst.op + (worst.group.empty() ? "" : " of group " + worst.group);
    for (const LateCall& call : calls) {
      if (finding.evidence.size() == 8) break;
      finding.evidence.push_back(fmt::format("{}: {}, {} late: {}", call.step,
                                             sized(call.op, call.num_elements), ms(call.late_ns),
                                             why_late(call)));
    }
  }

  static std::string why_late(const LateCall& call) {
    switch (call.why) {
      case LateCall::Why::kHost:
        return fmt::format("the host launched it {} later", ms(call.cause_ns));
      case LateCall::Why::kKernel:
        return fmt::format("the kernels before it took {} longer, most of all {}",
                           ms(call.cause_ns), call.kernel.substr(0, 80));
      case LateCall::Why::kStream:
        return fmt::format("the collective before it on its stream took {} longer",
                           ms(call.cause_ns));
      case LateCall::Why::kPeers:
        return "it began on time: other ranks came late to it, or the link was slow";
      case LateCall::Why::kOther:
        return "the trace does not show why";
    }
    return "";
  }

  static std::string advice_for_late(LateCall::Why why) {
    switch (why) {
      case LateCall::Why::kHost:
        return "look at what the host did in this step: data loading, logging, a checkpoint, "
               "garbage collection, a recompile";
      case LateCall::Why::kKernel:
        return "look at the input of this step (longer sequences, more tokens for an expert) and "
               "at the GPU's clocks";
      default:
        return "give the traces of all ranks, to see which one came late in this step";
    }
  }

  void useless() {
    for (const UselessCollective& kind : useless_collectives(timeline_)) {
      using Why = UselessCollective::Why;
      std::string what =
          fmt::format("{}{}", kind.op, kind.group.empty() ? "" : " of " + kind.group);
      Finding& finding =
          kind.why == Why::kEmpty
              ? add("empty_collective", kind.total_ns,
                    fmt::format("{} runs {} times on no elements", what, kind.num_calls),
                    "it moves nothing and still synchronises the ranks",
                    "skip the call when the tensor is empty, on all ranks alike")
          : kind.why == Why::kAlone
              ? add("lonely_collective", kind.total_ns,
                    fmt::format("{} runs {} times in a group of one rank", what, kind.num_calls),
                    "there is nobody to exchange with", "skip collectives of groups of size one")
              : add("repeated_collective", kind.total_ns,
                    fmt::format("{} is repeated {} times with nothing computed in between",
                                sized(what, kind.num_elements), kind.num_calls),
                    "the same buffer is exchanged again before anything changed it",
                    "remove the second exchange: two hooks or wrappers do the same one");
      finding.count = kind.num_calls;
      finding.where.collective = what;
    }
  }

  void pageable() {
    int64_t total = 0;
    std::vector<std::string> lines;
    for (const CopyKind& kind : copy_kinds(timeline_)) {
      if (!kind.is_pageable) continue;
      total += kind.total_ns;
      lines.push_back(fmt::format("{}: {} copies, {} bytes, {}, {:.2f} GB/s", kind.name,
                                  kind.num_copies, kind.num_bytes, ms(kind.total_ns),
                                  kind.gigabytes_per_second()));
    }
    if (percent(total, overlap_.wall_ns) < kCopyLimit) return;
    add("pageable_copies", total,
        fmt::format("copies to or from pageable host memory take {:.1f} % of the time",
                    percent(total, overlap_.wall_ns)),
        "such a copy blocks the host and runs at a part of the bus's speed",
        "pin the host buffers (DataLoader(pin_memory=True), tensor.pin_memory()) and copy with "
        "non_blocking=True")
        .evidence = std::move(lines);
  }

  // Reads of single numbers by the host: each waits until the device has come there.
  void tiny_reads() {
    for (const RepeatedCopy& copy : repeated_copies(timeline_)) {
      bool to_host = copy.name.find("DtoH") != std::string::npos ||
                     copy.name.find("Device-to-Host") != std::string::npos;
      if (!to_host || copy.num_bytes > kTinyBytes) continue;
      Finding& finding =
          add("host_reads", copy.total_ns,
              fmt::format("the host reads {} bytes from the device {} times a step", copy.num_bytes,
                          copy.per_step),
              "each read waits until the device has caught up, so nothing is launched ahead",
              "keep counters and losses on the device and read them rarely; look for item(), "
              "print, nonzero and "
              "if on a tensor");
      finding.count = copy.num_copies;
      finding.evidence.push_back(fmt::format("{}: {} copies", copy.name, copy.num_copies));
      return;
    }
  }

  void repeated() {
    for (const RepeatedCopy& copy : repeated_copies(timeline_)) {
      if (percent(copy.total_ns, overlap_.wall_ns) < kCopyLimit) continue;
      Finding& finding =
          add("repeated_copies", copy.total_ns,
              fmt::format("{} of {} bytes runs {} times a step", copy.name, copy.num_bytes,
                          copy.per_step),
              "the same amount is copied again and again: one tensor at a time, or the same one",
              "keep it on the device, or gather the pieces into one buffer and copy once");
      finding.count = copy.num_copies;
      finding.evidence.push_back(fmt::format("{} in all, {:.1f} % of the time", ms(copy.total_ns),
                                             percent(copy.total_ns, overlap_.wall_ns)));
    }
  }

  void damaged() {
    if (timeline_.num_skipped == 0 && !timeline_.is_truncated) return;
    Finding& finding = add(
        "damaged_trace", 0,
        timeline_.is_truncated
            ? fmt::format("{} ends early", timeline_.source)
            : fmt::format("{} events of {} are damaged", timeline_.num_skipped, timeline_.source),
        "the profiler was stopped while it wrote, or the file was edited",
        "the figures count what could be read; record again for the rest");
    finding.count = std::max<int64_t>(1, timeline_.num_skipped);
  }

  const Timeline& timeline_;
  Overlap overlap_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> find_in_trace(const Timeline& timeline) {
  if (timeline.spans.empty()) {
    Finding finding;
    finding.code = "no_device_work";
    finding.severity = Severity::kNote;
    finding.what = fmt::format("{} holds no device work", timeline.source);
    finding.why = "only the host was profiled, or the window was empty";
    finding.advice =
        "add ProfilerActivity.CUDA to the profiler, and profile at least one whole step";
    return {finding};
  }
  return TraceFinder(timeline).run();
}

std::vector<Finding> find_stragglers(const Arrivals& arrivals, int64_t wall_ns) {
  if (arrivals.ranks.size() < 2 || arrivals.num_matched == 0) return {};
  int64_t all = 0;
  int64_t least_computation = arrivals.ranks.front().computation_ns;
  int64_t least_host_wait = arrivals.ranks.front().host_wait_ns;
  for (const RankArrival& rank : arrivals.ranks) {
    all += rank.made_wait_ns;
    least_computation = std::min(least_computation, rank.computation_ns);
    least_host_wait = std::min(least_host_wait, rank.host_wait_ns);
  }
  auto worst = std::max_element(
      arrivals.ranks.begin(), arrivals.ranks.end(),
      [](const RankArrival& a, const RankArrival& b) { return a.made_wait_ns < b.made_wait_ns; });
  bool dominant = percent(worst->made_wait_ns, all) >= kStragglerShare;
  if (!dominant || percent(worst->made_wait_ns, wall_ns) < kStragglerLimit) return {};
  Finding finding;
  finding.code = "straggler";
  finding.where.ranks = {worst->rank};
  finding.weight = percent(worst->made_wait_ns, wall_ns) + 100;
  finding.what = fmt::format(
      "rank {} comes last to {} of {} collectives and makes the others wait {} ({:.1f} % of the "
      "time)",
      worst->rank, worst->num_last, arrivals.num_matched, ms(worst->made_wait_ns),
      percent(worst->made_wait_ns, wall_ns));
  int64_t more_computation = worst->computation_ns - least_computation;
  int64_t more_host_wait = worst->host_wait_ns - least_host_wait;
  if (more_computation >= more_host_wait && more_computation * 4 > worst->made_wait_ns) {
    finding.why = fmt::format("it computes {} longer than the fastest rank", ms(more_computation));
    finding.advice =
        "compare its work (batch, sequence lengths, experts) and its GPU (clocks, power, "
        "temperature: nvidia-smi -q -d PERFORMANCE)";
  } else if (more_host_wait * 4 > worst->made_wait_ns) {
    finding.why = fmt::format("its device waits {} longer for the host", ms(more_host_wait));
    finding.advice =
        "look at its host: data loading, logging or checkpoints on this rank alone, CPU binding, "
        "other processes";
  } else {
    finding.why =
        "its kernels take no longer and its host is no slower: it is late for a reason outside the "
        "trace";
    finding.advice =
        "look at the link of this rank and at collectives of groups that the traces do not hold";
  }
  for (const RankArrival& rank : arrivals.ranks) {
    finding.evidence.push_back(fmt::format(
        "rank {}: last {} times, made others wait {}, waited {}, computes {}, host wait {}",
        rank.rank, rank.num_last, ms(rank.made_wait_ns), ms(rank.waited_ns),
        ms(rank.computation_ns), ms(rank.host_wait_ns)));
    if (finding.evidence.size() == 16) break;
  }
  return {finding};
}

}  // namespace monograph::diagnose
