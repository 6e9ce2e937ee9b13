#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "diagnose/compile/job.h"

namespace monograph::diagnose {
namespace {

void add_fusion_table(const CompileJob& job, Section& section, Report& report) {
  const auto fusions = job.prefer_structured(&CompileFacts::fusions);
  if (fusions.empty()) return;
  Table table{"Fusion by graph", {"graph", "rank", "nodes", "kernels", "fused %", "times"}, {}};
  std::int64_t before = 0, after = 0;
  std::map<std::string, std::int64_t> refusals;
  for (const auto& [rank, value] : fusions) {
    before += value->before * value->count;
    after += value->after * value->count;
    for (const auto& [reason, count] : value->refusals) refusals[reason] += count;
    const double rate = 1 - static_cast<double>(value->after) / static_cast<double>(value->before);
    table.rows.push_back({value->compile_id.empty() ? "?" : value->compile_id,
                          rank < 0 ? std::string("-") : std::to_string(rank), value->before,
                          value->after, rate * 100, value->count});
  }
  const double rate = 1 - static_cast<double>(after) / static_cast<double>(before);
  section.lines.push_back(fmt::format("fusion merged {} nodes into {} kernels: {:.1f} % fused",
                                      before, after, rate * 100));
  report.statistics.push_back({"fusion_rate", rate});
  section.tables.push_back(std::move(table));
  if (refusals.empty()) return;
  Table reasons{"Why pairs were not fused", {"reason", "pairs"}, {}};
  std::vector<std::pair<std::int64_t, std::string>> sorted;
  for (const auto& [reason, count] : refusals) sorted.emplace_back(-count, reason);
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [count, reason] : sorted) reasons.rows.push_back({reason, -count});
  section.tables.push_back(std::move(reasons));
}

std::string hint_advice(std::string_view hint) {
  if (hint.find("FallbackKernel") != std::string_view::npos) {
    return "the operator has no generated kernel and breaks fusion around it: replace it by "
           "supported operators if it is hot";
  }
  if (hint.find("non-contiguous") != std::string_view::npos) {
    return "make the reduced dimension contiguous, or let the compiler pad and pick the layout";
  }
  if (hint.find("tiling") != std::string_view::npos) {
    return "make inputs of one kernel share a layout, e.g. by contiguous()";
  }
  if (hint.find("comprehensive padding") != std::string_view::npos) {
    return "nothing to do: padding is for GPUs";
  }
  return "";
}

void add_hints(const CompileJob& job, Section& section, Report& report) {
  std::map<std::string, std::pair<std::int64_t, std::set<int>>> hints;
  for (const auto& [rank, hint] : job.all(&CompileFacts::hints)) {
    auto& [count, ranks] = hints[hint->text];
    count += hint->count;
    ranks.insert(rank);
  }
  if (hints.empty()) return;
  Table table{"Performance hints", {"hint", "times", "what it means"}, {}};
  std::int64_t total = 0;
  for (const auto& [text, seen] : hints) {
    table.rows.push_back({text, seen.first, hint_advice(text)});
    total += seen.first;
  }
  section.tables.push_back(std::move(table));
  Finding finding;
  finding.code = "perf_hint";
  finding.severity = Severity::kNote;
  finding.what = fmt::format("the compiler gave {} different performance hint{}", hints.size(),
                             hints.size() == 1 ? "" : "s");
  finding.count = total;
  for (const auto& [text, seen] : hints) finding.evidence.push_back(text);
  report.findings.push_back(std::move(finding));
}

std::string cudagraph_advice(std::string_view reason) {
  const auto has = [&](std::string_view word) {
    return reason.find(word) != std::string_view::npos;
  };
  if (has("mutated inputs")) {
    return "do not write to graph inputs in place (clone, or make them parameters or buffers of "
           "the module)";
  }
  if (has("cpu device") || has("non gpu") || has("non-cuda") || has("multiple devices")) {
    return "move every tensor, scalars included, to one GPU: create it with device=x.device";
  }
  if (has("dynamic shape") || has("distinct sizes")) {
    return "use fixed shapes (pad or bucket), or torch._inductor.config.triton."
           "cudagraph_skip_dynamic_graphs with a warm-up for each size";
  }
  if (has("incompatible ops") || has("not support") || has("unsafe")) {
    return "replace the named operator, or move it outside the compiled function";
  }
  if (has("complex memory overlap") || has("deterministic")) {
    return "see the reason; the graph still runs, each kernel launched by itself";
  }
  return "the graph still runs, each kernel launched by itself: remove the cause, or use mode "
         "'default' to silence this";
}

void add_cudagraph_skips(const CompileJob& job, Report& report) {
  std::map<std::string, Finding> findings;
  std::map<std::string, std::set<int>> ranks;
  const auto add = [&](int rank, const std::string& id, const std::string& reason,
                       std::int64_t count) {
    Finding& finding = findings[reason];
    finding.count = finding.what.empty() ? count : finding.count + count;
    ranks[reason].insert(rank);
    if (!finding.what.empty()) return;
    finding.code = "cudagraph_skip";
    finding.severity = Severity::kWarning;
    finding.what = "CUDA graphs were not used: " + reason;
    finding.where.frame = frame_label("", id);
    finding.why = "each kernel is launched from the host, which small kernels cannot hide";
    finding.advice = cudagraph_advice(reason);
    finding.evidence.push_back("skipping cudagraphs due to " + reason);
  };
  for (const auto& [rank, skip] : job.all(&CompileFacts::cudagraph_skips)) {
    add(rank, skip->compile_id, skip->text, skip->count);
  }
  for (const auto& [rank, value] : job.all(&CompileFacts::compilations)) {
    if (value->cudagraph_skip.empty()) continue;
    std::string reason = value->cudagraph_skip;
    constexpr std::string_view kPrefix = "skipping cudagraphs due to ";
    if (reason.starts_with(kPrefix)) reason.erase(0, kPrefix.size());
    reason = reason.substr(0, reason.find(". Found from"));
    if (!findings.contains(reason)) add(rank, value->compile_id, reason, 1);
  }
  for (auto& [reason, finding] : findings) {
    finding.where.ranks = known_ranks(ranks[reason]);
    report.findings.push_back(std::move(finding));
  }
}

}  // namespace

void conclude_fusion(const CompileJob& job, Report& report) {
  Section section;
  section.title = "Kernels";
  add_fusion_table(job, section, report);
  add_hints(job, section, report);
  add_cudagraph_skips(job, report);
  if (!section.tables.empty()) report.sections.push_back(std::move(section));
}

}  // namespace monograph::diagnose
