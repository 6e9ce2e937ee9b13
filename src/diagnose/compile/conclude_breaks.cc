#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "diagnose/compile/graph_break.h"
#include "diagnose/compile/job.h"
#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

// One place in the code at which graphs break for one reason.
struct BreakGroup {
  const GraphBreak* best = nullptr;  // the message with most in it
  std::set<int> ranks;
  std::map<std::pair<int, bool>, std::int64_t> counts;  // by rank and kind of log
  std::vector<std::string> evidence;
};

std::size_t richness(const GraphBreak& graph_break) {
  return graph_break.stack.size() * 4 + graph_break.hints.size() +
         (graph_break.explanation.empty() ? 0 : 1);
}

// The two kinds of log of one process tell of the same breaks.
std::int64_t total(const BreakGroup& group) {
  std::map<int, std::int64_t> by_rank;
  for (const auto& [key, count] : group.counts) {
    by_rank[key.first] = std::max(by_rank[key.first], count);
  }
  std::int64_t sum = 0;
  for (const auto& [rank, count] : by_rank) sum += count;
  return sum;
}

std::map<std::tuple<std::string, int, std::string>, BreakGroup> group_breaks(
    const CompileJob& job) {
  std::map<std::tuple<std::string, int, std::string>, BreakGroup> groups;
  for (std::size_t i = 0; i < job.logs.size(); ++i) {
    for (const GraphBreak& value : job.logs[i]->breaks) {
      const int rank = job.rank_of(i, value.rank);
      BreakGroup& group = groups[{value.file, value.line, value.reason}];
      if (group.best == nullptr || richness(value) > richness(*group.best)) group.best = &value;
      group.ranks.insert(rank);
      group.counts[{rank, job.logs[i]->is_structured}] += value.count;
      if (group.evidence.size() < 4) group.evidence.push_back(value.evidence);
    }
  }
  return groups;
}

// A warning that precedes the message about the same break: "Graph break from `Tensor.item()`".
bool is_announcement(const GraphBreak& value) {
  return value.reason.ends_with(" call") && value.reason.starts_with("Tensor.") &&
         value.explanation.empty();
}

bool was_wanted(const GraphBreak& value) {
  return value.reason.find("torch.compiler.disable") != std::string::npos ||
         value.reason.find("torch._dynamo.disable") != std::string::npos ||
         value.reason.find("graph_break()") != std::string::npos;
}

std::string why_of(const GraphBreak& value) {
  std::string why = value.explanation.empty() ? value.reason : value.explanation;
  if (why.size() > 400) why = why.substr(0, 400) + "...";
  if (why.ends_with('.') && !why.ends_with("...")) why.pop_back();
  if (value.skips_function) {
    why += "; tracing could not resume, so the whole function runs without the compiler";
  }
  return why;
}

// "Failed to trace builtin operator (`print`)": the general reasons of 2.7 and later with the name
// that their explanation gives.
std::string headline(const GraphBreak& value) {
  std::string text = value.reason.substr(0, 160);
  const std::size_t open = value.explanation.find('`');
  if (open == std::string::npos || text.find('`') != std::string::npos) return text;
  const std::size_t close = value.explanation.find('`', open + 1);
  if (close == std::string::npos || close - open > 60) return text;
  const std::string name = value.explanation.substr(open, close + 1 - open);
  const std::string bare = name.substr(1, name.size() - 2);
  return text.find(bare) != std::string::npos ? text : fmt::format("{} ({})", text, name);
}

Finding finding_of(const BreakGroup& group) {
  const GraphBreak& value = *group.best;
  const SourceFrame place = user_place(value);
  Finding finding;
  finding.code = "graph_break";
  const bool quiet = is_internal(value) || was_wanted(value);
  finding.severity = quiet ? Severity::kNote : Severity::kWarning;
  finding.count = total(group);
  finding.weight = static_cast<double>(finding.count) * (value.skips_function ? 10 : 1);
  finding.what = value.skips_function ? "function left uncompiled" : "graph break";
  if (place.line > 0) finding.what += fmt::format(" at {}:{}", base_name(place.file), place.line);
  finding.what += ": " + headline(value);
  finding.where.ranks = known_ranks(group.ranks);
  finding.where.frame = frame_label(place.function, value.compile_id);
  finding.where.file = place.file;
  finding.where.line = place.line;
  finding.why = why_of(value);
  finding.advice = break_advice(value);
  if (!place.code.empty()) {
    finding.evidence.push_back(fmt::format("{}:{}: {}", place.file, place.line, place.code));
  }
  if (place.file != value.file || place.line != value.line) {
    finding.evidence.push_back(fmt::format("tracing stopped at {}:{}", value.file, value.line));
  }
  finding.evidence.insert(finding.evidence.end(), group.evidence.begin(), group.evidence.end());
  for (const std::string& hint : value.hints) finding.evidence.push_back("Hint: " + hint);
  return finding;
}

}  // namespace

void conclude_breaks(const CompileJob& job, Report& report) {
  const auto groups = group_breaks(job);
  for (const auto& [key, group] : groups) {
    bool repeated = false;
    for (const auto& [other_key, other] : groups) {
      repeated = repeated || (&other != &group && std::get<0>(other_key) == std::get<0>(key) &&
                              std::get<1>(other_key) == std::get<1>(key));
    }
    if (repeated && is_announcement(*group.best)) continue;
    report.findings.push_back(finding_of(group));
  }
}

}  // namespace monograph::diagnose
