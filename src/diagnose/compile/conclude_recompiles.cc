#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "diagnose/compile/job.h"
#include "diagnose/compile/root_cause.h"
#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

constexpr int kDefaultLimit = 8;  // torch._dynamo.config.recompile_limit

std::string plural(std::int64_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string join(const std::set<std::string>& parts, std::size_t limit) {
  std::string text;
  std::size_t shown = 0;
  for (const std::string& part : parts) {
    if (shown++ == limit) return text + fmt::format(" and {} more", parts.size() - limit);
    if (!text.empty()) text += "; ";
    text += part;
  }
  return text;
}

Finding finding_of(const RecompileCause& cause, const CompileJob& job) {
  Finding finding;
  finding.code = "recompile";
  finding.severity = Severity::kWarning;
  finding.count = cause.count;
  finding.weight = cause.seconds > 0 ? cause.seconds : static_cast<double>(cause.count);
  finding.where.ranks = known_ranks(cause.ranks);
  finding.where.frame =
      frame_label(cause.function.name, cause.compile_ids.empty() ? "" : *cause.compile_ids.begin());
  set_place(finding, cause.function);
  const bool some_ranks = job.ranks.size() > 1 && finding.where.ranks.size() < job.ranks.size() &&
                          !finding.where.ranks.empty();
  finding.what =
      fmt::format("{} recompiled: {}", function_label(cause.function), describe_changes(cause));
  if (some_ranks) {
    finding.what += fmt::format(", on {} only", describe_ranks(finding.where.ranks));
    finding.weight *= 2;
  }
  finding.why = cause.guard.expression.empty()
                    ? "a guard of every compiled version failed; the log does not say which"
                    : fmt::format("guard failed: {}", cause.guard.expression);
  if (!cause.guard.code.empty()) {
    finding.why += fmt::format("; made by `{}`", cause.guard.code);
    if (cause.guard.line > 0) {
      finding.why += fmt::format(" at {}:{}", base_name(cause.guard.file), cause.guard.line);
    }
  }
  if (!cause.continuations.empty()) {
    finding.why +=
        fmt::format("; {} after graph breaks recompiled with it ({})",
                    plural(static_cast<std::int64_t>(cause.continuations.size()), "continuation"),
                    join(cause.continuations, 4));
  }
  if (cause.seconds > 0) {
    finding.why += fmt::format("; {:.1f} s of compile time", cause.seconds);
  }
  if (some_ranks) {
    finding.why += "; the other ranks wait for it in their next collective";
  }
  if (cause.versions >= kDefaultLimit) {
    finding.why += fmt::format(
        "; {} versions exist, the default recompile_limit is {}: what comes "
        "next runs without the compiler",
        cause.versions, kDefaultLimit);
    finding.weight *= 2;
  }
  finding.advice = guard_advice(cause.guard, cause.count > 3);
  finding.evidence = cause.evidence;
  return finding;
}

// A function whose recompiles reached the limit, over all ranks and kinds of log.
struct LimitGroup {
  const LimitHit* hit = nullptr;
  std::set<int> ranks;
};

// The cause that brought the function to its limit; nullptr if its recompiles were not logged.
const RecompileCause* cause_of_limit(const LimitHit& hit,
                                     const std::vector<RecompileCause>& causes) {
  const RecompileCause* heaviest = nullptr;
  for (const RecompileCause& cause : causes) {
    const bool same =
        cause.function.line == hit.function.line && cause.function.name == hit.function.name;
    if (same && (heaviest == nullptr || cause.count > heaviest->count)) heaviest = &cause;
  }
  return heaviest;
}

Finding limit_finding(const LimitGroup& group, const RecompileCause* cause, const CompileJob& job) {
  const LimitHit& hit = *group.hit;
  Finding finding;
  std::string changes;
  if (cause != nullptr) {
    finding = finding_of(*cause, job);
    changes = ": " + describe_changes(*cause);
  } else {
    const Guard guard = parse_guard(parse_failure(hit.last_reason).text);
    finding.why = fmt::format("last reason: {}", describe_change(guard));
    if (!hit.last_reason.empty()) changes = ": " + describe_change(guard);
    finding.advice = guard_advice(guard, true);
    set_place(finding, hit.function);
  }
  finding.code = "recompile_limit";
  finding.severity = Severity::kError;
  finding.weight += 100;
  finding.where.ranks = known_ranks(group.ranks);
  finding.where.frame = frame_label(hit.function.name, hit.compile_id);
  finding.what = fmt::format("{} hit {} ({}) and runs without the compiler from then on{}",
                             function_label(cause != nullptr ? cause->function : hit.function),
                             hit.option, hit.limit, changes);
  finding.evidence.insert(finding.evidence.begin(), hit.evidence);
  if (!hit.last_reason.empty()) finding.evidence.push_back("last reason: " + hit.last_reason);
  return finding;
}

}  // namespace

void conclude_recompiles(const CompileJob& job, Report& report) {
  const std::vector<RecompileCause> causes = find_recompile_causes(job);
  std::map<std::string, LimitGroup> limits;
  for (const auto& [rank, hit] : job.all(&CompileFacts::limit_hits)) {
    LimitGroup& group =
        limits[fmt::format("{}|{}|{}", hit->option, hit->function.name, hit->function.line)];
    if (group.hit == nullptr) group.hit = hit;
    group.ranks.insert(rank);
  }
  std::set<const RecompileCause*> told;
  for (const auto& [key, group] : limits) {
    const RecompileCause* cause = cause_of_limit(*group.hit, causes);
    told.insert(cause);
    report.findings.push_back(limit_finding(group, cause, job));
  }
  for (const RecompileCause& cause : causes) {
    if (!told.contains(&cause)) report.findings.push_back(finding_of(cause, job));
  }
  if (!causes.empty()) add_root_cause_section(job, report);
}

}  // namespace monograph::diagnose
