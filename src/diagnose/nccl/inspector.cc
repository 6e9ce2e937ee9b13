#include "diagnose/nccl/inspector.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "diagnose/compile/json_fields.h"
#include "diagnose/input.h"
#include "diagnose/report_words.h"
#include "diagnose/source.h"
#include "diagnose/timeline/event_splitter.h"

namespace monograph::diagnose {
namespace {

constexpr std::size_t kMaxCalls = 1'000'000;
constexpr double kLateUs = 20;            // a difference below is noise
constexpr double kDominantShare = 0.5;    // of all waits
constexpr double kStragglerShare = 0.02;  // of the time in collectives

InspectedCall parse_call(const JsonFields& fields) {
  InspectedCall call;
  call.communicator = fields.string("header/id");
  call.rank = static_cast<int>(fields.integer("header/rank", -1));
  call.op = fields.string("coll_perf/coll");
  call.sequence = fields.integer("coll_perf/coll_sn", -1);
  call.num_bytes = fields.integer("coll_perf/coll_msg_size_bytes", 0);
  call.microseconds = fields.number("coll_perf/coll_exec_time_us", 0);
  call.bus_gbs = fields.number("coll_perf/coll_busbw_gbs", 0);
  return call;
}

using Calls = std::vector<const InspectedCall*>;

struct Arrival {
  std::int64_t num_last = 0;
  double made_wait_us = 0;
  double waited_us = 0;
};

struct Arrivals {
  std::map<int, Arrival> ranks;
  std::int64_t num_matched = 0;
  double total_us = 0;  // of the longest stay in each
};

// Who is in a collective for the shortest time came last. Communicators with as many ranks as the
// largest are compared: ranks of others are numbered differently.
Arrivals compare_arrivals(const Calls& calls) {
  std::map<std::string, int> last_rank;
  for (const InspectedCall* call : calls) {
    int& last = last_rank[call->communicator];
    last = std::max(last, call->rank);
  }
  int most = 0;
  for (const auto& [communicator, last] : last_rank) most = std::max(most, last);
  std::map<std::tuple<std::string, std::string, std::int64_t>, Calls> matches;
  for (const InspectedCall* call : calls) {
    if (call->sequence < 0 || call->rank < 0 || last_rank[call->communicator] < most) continue;
    matches[{call->communicator, call->op, call->sequence}].push_back(call);
  }
  Arrivals arrivals;
  for (const auto& [key, members] : matches) {
    if (members.size() < 2) continue;
    const auto [shortest, longest] = std::minmax_element(
        members.begin(), members.end(), [](const InspectedCall* a, const InspectedCall* b) {
          return a->microseconds < b->microseconds;
        });
    ++arrivals.num_matched;
    arrivals.total_us += (*longest)->microseconds;
    const double wait = (*longest)->microseconds - (*shortest)->microseconds;
    for (const InspectedCall* call : members) {
      arrivals.ranks[call->rank].waited_us += call->microseconds - (*shortest)->microseconds;
    }
    if (wait < kLateUs) continue;
    Arrival& last = arrivals.ranks[(*shortest)->rank];
    ++last.num_last;
    last.made_wait_us += wait;
  }
  return arrivals;
}

void add_straggler(const Arrivals& arrivals, Report& report) {
  if (arrivals.ranks.size() < 2) return;
  double all = 0;
  for (const auto& [rank, arrival] : arrivals.ranks) all += arrival.made_wait_us;
  const auto& [rank, worst] = *std::max_element(
      arrivals.ranks.begin(), arrivals.ranks.end(),
      [](auto& a, auto& b) { return a.second.made_wait_us < b.second.made_wait_us; });
  if (worst.made_wait_us < kDominantShare * all ||
      worst.made_wait_us <= kStragglerShare * arrivals.total_us) {
    return;
  }
  Finding finding;
  finding.code = "nccl_straggler";
  finding.weight = worst.made_wait_us / arrivals.total_us * 100;
  finding.where.ranks = {rank};
  finding.what = fmt::format(
      "rank {} comes last to {} of {} collectives and makes the others wait {:.1f} ms ({:.1f} % of "
      "the time in them)",
      rank, worst.num_last, arrivals.num_matched, worst.made_wait_us / 1e3, finding.weight);
  finding.why = "it is in them for the shortest time: it starts last and all end together";
  finding.advice =
      "profile this rank (torch.profiler, then monograph trace): more work, a slower GPU, or a "
      "host "
      "that launches late";
  for (const auto& [other, arrival] : arrivals.ranks) {
    if (finding.evidence.size() >= 16) break;
    finding.evidence.push_back(
        fmt::format("rank {}: last {} times, made others wait {:.3f} ms, waited {:.3f} ms", other,
                    arrival.num_last, arrival.made_wait_us / 1e3, arrival.waited_us / 1e3));
  }
  report.findings.push_back(std::move(finding));
}

Table speed_table(const Calls& calls) {
  std::map<std::pair<std::string, std::int64_t>, Calls> kinds;
  for (const InspectedCall* call : calls) kinds[{call->op, call->num_bytes}].push_back(call);
  Table table{"collectives",
              {"operation", "bytes", "calls", "median us", "slowest us", "bus GB/s", "least GB/s",
               "of rank"},
              {}};
  for (auto& [kind, list] : kinds) {
    if (table.rows.size() >= 256) break;
    const auto middle = static_cast<std::ptrdiff_t>(list.size() / 2);
    std::nth_element(list.begin(), list.begin() + middle, list.end(),
                     [](auto* a, auto* b) { return a->bus_gbs < b->bus_gbs; });
    const double bus = list[list.size() / 2]->bus_gbs;
    const InspectedCall* least = *std::min_element(
        list.begin(), list.end(), [](auto* a, auto* b) { return a->bus_gbs < b->bus_gbs; });
    std::sort(list.begin(), list.end(),
              [](auto* a, auto* b) { return a->microseconds < b->microseconds; });
    table.rows.push_back({kind.first, kind.second, static_cast<std::int64_t>(list.size()),
                          list[list.size() / 2]->microseconds, list.back()->microseconds, bus,
                          least->bus_gbs, static_cast<std::int64_t>(least->rank)});
  }
  return table;
}

}  // namespace

bool accepts_inspector(std::string_view head, std::string_view) {
  const std::size_t start = head.find_first_not_of(" \t\r\n");
  return start != std::string_view::npos && head[start] == '{' &&
         head.find("\"coll_perf\"") != std::string_view::npos &&
         head.find("\"coll_sn\"") != std::string_view::npos;
}

std::unique_ptr<Facts> read_inspector(Input& input) {
  auto facts = std::make_unique<InspectorFacts>();
  JsonFields fields;
  EventSplitter splitter;
  splitter.event = [&](std::string_view text) {
    if (!fields.parse(text)) {
      ++facts->num_torn;
    } else if (facts->calls.size() >= kMaxCalls) {
      ++facts->num_left_out;
    } else if (fields.has("coll_perf")) {
      facts->calls.push_back(parse_call(fields));
    }
  };
  splitter.feed("[");  // objects one after another are like the elements of a list
  std::string buffer(input.options().piece_bytes, '\0');
  while (const std::size_t count = input.read(buffer.data(), buffer.size())) {
    splitter.feed(std::string_view(buffer).substr(0, count));
  }
  return facts;
}

void conclude_inspector(const FactsList& facts, Report& report) {
  struct Job {
    Calls calls;
    std::int64_t num_torn = 0, num_left_out = 0;
  };
  std::map<std::string, Job> jobs;
  for (const InspectorFacts* log : facts_of<InspectorFacts>(facts)) {
    Job& job = jobs[job_folder(log->path)];
    for (const InspectedCall& call : log->calls) job.calls.push_back(&call);
    job.num_torn += log->num_torn;
    job.num_left_out += log->num_left_out;
  }
  for (const auto& [folder, job] : jobs) {
    const Arrivals arrivals = compare_arrivals(job.calls);
    add_straggler(arrivals, report);
    Section section;
    section.title = "NCCL inspector";
    std::set<int> ranks;
    for (const InspectedCall* call : job.calls) ranks.insert(call->rank);
    section.lines.push_back(fmt::format(
        "{} of {}; {} seen by several ranks",
        count_of(static_cast<std::int64_t>(job.calls.size()), "collective"),
        count_of(static_cast<std::int64_t>(ranks.size()), "rank"), arrivals.num_matched));
    if (job.num_torn > 0) {
      section.lines.push_back(fmt::format("{} damaged records were left out", job.num_torn));
    }
    if (job.num_left_out > 0) {
      section.lines.push_back(fmt::format("{} records beyond the first {} of a file were left out",
                                          job.num_left_out, kMaxCalls));
    }
    section.tables.push_back(speed_table(job.calls));
    report.sections.push_back(std::move(section));
  }
}

}  // namespace monograph::diagnose
