#include "diagnose/hang/hang_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <type_traits>
#include <utility>

#include "diagnose/hang/flight_recorder.h"
#include "diagnose/hang/hang.h"
#include "diagnose/hang/hang_text.h"
#include "diagnose/hang/pickle.h"
#include "diagnose/hang/ras.h"
#include "diagnose/hang/wait_figure.h"
#include "diagnose/input.h"
#include "diagnose/source.h"

namespace monograph::diagnose {
namespace {

constexpr size_t kMaxDumpBytes = size_t{512} << 20;

// Reader is HangText or RasText.
template <typename Reader>
class ProgressLineReader : public LineReader {
 public:
  void read(const Line& line) override {
    if constexpr (std::is_same_v<Reader, HangText>) {
      if (line.is_of_compiler()) return reader_.see(line.rank);
      reader_.read(line.text, line.rank);
    } else if (!line.is_of_compiler()) {
      reader_.read(line.text);
    }
  }

  std::unique_ptr<Facts> finish() override {
    Progress progress = reader_.finish();
    if (progress.empty() && progress.ranks_seen.empty()) return nullptr;
    auto facts = std::make_unique<HangFacts>();
    facts->kind = std::is_same_v<Reader, HangText> ? HangFacts::Kind::kText : HangFacts::Kind::kRas;
    facts->progress = std::move(progress);
    return facts;
  }

 private:
  Reader reader_;
};

std::string job_of(const HangFacts& facts) {
  return job_of_path(facts.path);
}

struct Incident {
  std::string job;  // of its first file
  std::vector<const HangFacts*> files;
};

bool same_calls(const RankProgress& a, const RankProgress& b) {
  return std::equal(a.calls.begin(), a.calls.end(), b.calls.begin(), b.calls.end(),
                    [](const Call& x, const Call& y) {
                      return x.sequence == y.sequence && x.op == y.op &&
                             x.created_ns == y.created_ns;
                    });
}

// Communicators have a hash; two reports of one job share some.
bool same_job(const HangFacts& a, const HangFacts& b) {
  auto in_b = [&](const auto& group) { return b.progress.groups.contains(group.first); };
  return a.progress.groups.empty() || b.progress.groups.empty() ||
         std::any_of(a.progress.groups.begin(), a.progress.groups.end(), in_b);
}

enum class Fit { kNew, kDuplicate, kConflict };

// Whether a file can tell of the same job as the files before it: dumps of a rank must be the same
// dump, text of a rank from another kind of file must not tell a second story.
Fit fit(const Incident& incident, const HangFacts& facts) {
  Fit result = Fit::kNew;
  for (const HangFacts* known : incident.files) {
    if (known->kind != facts.kind) continue;
    if (facts.kind == HangFacts::Kind::kRas && !same_job(*known, facts)) return Fit::kConflict;
    for (const auto& [rank, progress] : facts.progress.ranks) {
      auto other = known->progress.ranks.find(rank);
      if (other == known->progress.ranks.end()) continue;
      if (facts.kind == HangFacts::Kind::kDump) {
        if (!same_calls(progress, other->second)) return Fit::kConflict;
        result = Fit::kDuplicate;
      } else if (!progress.calls.empty() && !other->second.calls.empty() &&
                 job_of(*known) != job_of(facts)) {
        return Fit::kConflict;
      }
    }
  }
  return result;
}

std::vector<Incident> split_incidents(const FactsList& all) {
  std::vector<Incident> incidents;
  for (const HangFacts* facts : facts_of<HangFacts>(all)) {
    std::string job = job_of(*facts);
    Incident* home = nullptr;
    Fit how = Fit::kNew;
    for (Incident& incident : incidents) {
      how = fit(incident, *facts);
      if (how == Fit::kConflict) continue;
      home = &incident;
      if (incident.job == job) break;
    }
    if (home == nullptr) {
      incidents.push_back({job, {facts}});
    } else if (fit(*home, *facts) != Fit::kDuplicate) {
      home->files.push_back(facts);
    }
  }
  return incidents;
}

Progress progress_of(const Incident& incident, bool with_ras) {
  Progress whole;
  for (const HangFacts* file : incident.files) {
    if (file->kind == HangFacts::Kind::kRas && !with_ras) continue;
    Progress part = file->progress;
    // A log without rank in its lines: its name may say whose it is.
    for (Failure& failure : part.failures) {
      if (failure.rank < 0) failure.rank = file->rank;
    }
    if (part.ranks.empty() && file->rank >= 0) part.ranks_seen.insert(file->rank);
    merge_progress(whole, std::move(part));
  }
  unify_groups(whole);
  return whole;
}

std::string_view code_of(const Hang& hang) {
  switch (hang.kind) {
    case Hang::Kind::kMissing:
      return hang.is_certain ? "hang_missing_rank" : "ranks_behind";
    case Hang::Kind::kMismatch:
      return "hang_mismatch";
    case Hang::Kind::kCycle:
      return "hang_cycle";
    case Hang::Kind::kStall:
      return "hang_stall";
    case Hang::Kind::kFailed:
      return "rank_failed";
    case Hang::Kind::kLostPeer:
      return "peer_lost";
    case Hang::Kind::kNone:
      break;
  }
  return "";
}

// How near to the cause an answer of this kind is.
int nearness(Hang::Kind kind) {
  switch (kind) {
    case Hang::Kind::kFailed:
      return 3;
    case Hang::Kind::kMismatch:
      return 2;
    case Hang::Kind::kMissing:
    case Hang::Kind::kCycle:
      return 1;
    default:
      return 0;
  }
}

std::string_view words(WaitEdge::Why why) {
  return why == WaitEdge::Why::kNotEntered   ? "has not entered"
         : why == WaitEdge::Why::kNotStarted ? "entered, not started on its device"
                                             : "left no record";
}

// One row for the ranks that wait in the same call for the same ranks.
Table wait_table(const Hang& hang, const Progress& progress) {
  std::vector<std::pair<std::string, std::string_view>> order;  // calls, as they come
  std::map<std::pair<std::string, std::string_view>, std::map<int, std::set<int>>> calls;
  for (const WaitEdge& edge : hang.edges) {
    std::string call = fmt::format("{} #{} of {}", edge.op.empty() ? "collective" : edge.op,
                                   edge.sequence, group_title(progress, edge.group));
    std::pair<std::string, std::string_view> key{std::move(call), words(edge.why)};
    if (!calls.contains(key)) order.push_back(key);
    calls[key][edge.waiter].insert(edge.waited_on);
  }
  Table table{"who waits for whom", {"ranks", "in", "for ranks", "which"}, {}};
  constexpr size_t kMaxRows = 200;
  for (const auto& key : order) {
    std::map<std::set<int>, std::set<int>> waiters;  // by whom they wait for
    for (const auto& [waiter, waited_on] : calls[key]) waiters[waited_on].insert(waiter);
    for (const auto& [waited_on, ranks] : waiters) {
      if (table.rows.size() == kMaxRows) return table;
      table.rows.push_back(
          {rank_list(ranks), key.first, rank_list(waited_on), std::string(key.second)});
    }
  }
  return table;
}

}  // namespace

std::string job_of_path(const std::string& path) {
  std::string pattern;
  size_t slash = path.rfind('/');
  for (size_t i = 0; i < path.size(); ++i) {
    bool in_name = slash == std::string::npos || i > slash;
    bool is_digit = std::isdigit(static_cast<unsigned char>(path[i])) != 0;
    if (!in_name || !is_digit) {
      pattern += path[i];
    } else if (pattern.empty() || pattern.back() != '#') {
      pattern += '#';
    }
  }
  return pattern;
}

Finding to_finding(const Hang& hang, const Progress& progress) {
  Finding finding;
  finding.code = code_of(hang);
  finding.severity = hang.is_certain ? Severity::kError : Severity::kWarning;
  finding.what = hang.headline;
  finding.where.ranks = hang.culprits;
  finding.where.frame = hang.place.function;
  finding.where.file = hang.place.file;
  finding.where.line = static_cast<int>(hang.place.line);
  if (hang.sequence >= 0) {
    finding.where.collective = fmt::format("{} #{} of {}", hang.op.empty() ? "collective" : hang.op,
                                           hang.sequence, group_title(progress, hang.group));
  }
  finding.why = hang.reason;
  finding.advice = hang.advice;
  finding.evidence = hang.evidence;
  // A stuck job comes before what makes one slow; of two answers the one nearer to the cause.
  // That a peer is gone everybody says who is left.
  finding.weight = hang.kind == Hang::Kind::kLostPeer ? 0 : 1e6 + nearness(hang.kind);
  return finding;
}

bool accepts_flight_recorder(std::string_view head, std::string_view /*path*/) {
  return looks_like_pickle(head) || looks_like_flight_recorder_json(head);
}

std::unique_ptr<Facts> read_flight_recorder_file(Input& input) {
  auto facts = std::make_unique<HangFacts>();
  facts->kind = HangFacts::Kind::kDump;
  facts->progress = read_flight_recorder(input.read_all(kMaxDumpBytes), input.path());
  facts->rank = facts->progress.ranks.begin()->first;
  return facts;
}

bool accepts_ras(std::string_view head, std::string_view /*path*/) {
  return looks_like_ras_json(head);
}

std::unique_ptr<Facts> read_ras_file(Input& input) {
  auto facts = std::make_unique<HangFacts>();
  facts->kind = HangFacts::Kind::kRas;
  facts->progress = read_ras_json(input.read_all(kMaxDumpBytes), input.path());
  return facts;
}

std::unique_ptr<LineReader> make_hang_reader() {
  return std::make_unique<ProgressLineReader<HangText>>();
}

std::unique_ptr<LineReader> make_ras_reader() {
  return std::make_unique<ProgressLineReader<RasText>>();
}

void conclude_hangs(const FactsList& facts, Report& report) {
  for (const Incident& incident : split_incidents(facts)) {
    Progress whole = progress_of(incident, false);
    Hang hang = find_hang(whole);
    // One look from outside counts where the ranks themselves left nothing.
    if (hang.kind == Hang::Kind::kNone) {
      whole = progress_of(incident, true);
      hang = find_hang(whole);
    }
    if (hang.kind == Hang::Kind::kNone) continue;
    report.findings.push_back(to_finding(hang, whole));
    Section section;
    const std::string word =
        hang.kind == Hang::Kind::kFailed || hang.kind == Hang::Kind::kLostPeer ? "failure" : "hang";
    section.title =
        hang.culprits.empty() ? word : fmt::format("{}: {}", word, describe_ranks(hang.culprits));
    section.lines.push_back(fmt::format("from {} file{}: {}", incident.files.size(),
                                        incident.files.size() == 1 ? "" : "s", incident.job));
    if (!hang.edges.empty()) {
      section.figures.push_back(draw_waits(hang));
      section.tables.push_back(wait_table(hang, whole));
    }
    report.sections.push_back(std::move(section));
  }
}

}  // namespace monograph::diagnose
