#include "diagnose/compile/rank_schedules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

using Sequence = std::vector<std::string>;

// "torch.ops._c10d_functional.all_reduce_.default" -> "all_reduce"; "" for a wait, which is local.
std::string plain_collective(std::string_view op) {
  if (op.find("wait_tensor") != std::string_view::npos) return "";
  if (op.ends_with(".default")) op.remove_suffix(8);
  op = op.substr(op.rfind('.') + 1);
  if (op.ends_with('_')) op.remove_suffix(1);
  return std::string(op);
}

// Ranks by equal sequences, the largest cluster first.
std::vector<Cluster<Sequence>> cluster(const std::map<int, Sequence>& by_rank) {
  std::map<Sequence, std::set<int>> clusters;
  for (const auto& [rank, sequence] : by_rank) clusters[sequence].insert(rank);
  std::vector<Cluster<Sequence>> sorted;
  for (auto& [sequence, ranks] : clusters) sorted.push_back({std::move(ranks), sequence});
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::make_tuple(b.ranks.size(), *a.ranks.begin()) <
           std::make_tuple(a.ranks.size(), *b.ranks.begin());
  });
  return sorted;
}

std::size_t first_difference(const Sequence& a, const Sequence& b) {
  std::size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  return at;
}

std::string item(const Sequence& sequence, std::size_t at) {
  return at < sequence.size() ? sequence[at] : "nothing more";
}

std::string list(const Sequence& sequence, std::size_t from) {
  constexpr std::size_t kShown = 12;
  std::string text = from > 0 ? "... " : "";
  for (std::size_t i = from; i < sequence.size() && i < from + kShown; ++i) {
    text += (i > from ? ", " : "") + sequence[i];
  }
  if (sequence.size() > from + kShown) text += ", ...";
  return sequence.empty() ? "(none)" : text;
}

std::string function_key(const CompiledFunction& function) {
  return fmt::format("{}|{}|{}", function.name, base_name(function.file), function.line);
}

struct FunctionSchedules {
  CompiledFunction function;
  std::map<int, std::vector<std::pair<std::string, Sequence>>> by_rank;  // compile id, collectives
};

std::map<std::string, FunctionSchedules> schedules_by_function(const CompileJob& job) {
  const FunctionNames names(job);
  std::map<std::string, FunctionSchedules> found;
  for (const Ranked<CollectiveSchedule>& record : job.prefer_structured(&CompileFacts::schedules)) {
    const auto& [rank, value] = record;
    if (rank < 0) continue;
    const CompiledFunction function = names.of(record);
    FunctionSchedules& entry = found[function_key(function)];
    entry.function = function;
    Sequence sequence;
    for (const std::string& op : value->ops) {
      std::string plain = plain_collective(op);
      if (!plain.empty()) sequence.push_back(std::move(plain));
    }
    entry.by_rank[rank].emplace_back(value->compile_id, std::move(sequence));
  }
  return found;
}

Finding schedule_finding(const CompiledFunction& function, const std::string& compile_id,
                         const Cluster<Sequence>& mine, const Cluster<Sequence>& theirs) {
  const std::size_t at = first_difference(mine.value, theirs.value);
  const std::string ranks = describe_ranks(known_ranks(mine.ranks));
  const std::string others = describe_ranks(known_ranks(theirs.ranks));
  Finding finding;
  finding.code = "collective_schedule_mismatch";
  finding.severity = Severity::kError;
  finding.weight = 400;
  finding.where.ranks = known_ranks(mine.ranks);
  finding.where.frame = frame_label(function.name, compile_id);
  set_place(finding, function);
  finding.where.collective = fmt::format("collective {} of the graph", at + 1);
  finding.what = fmt::format("{} will launch other collectives than {} in graph [{}]", ranks,
                             others, compile_id);
  finding.why = fmt::format("at collective {} {} launches {}, {} {}", at + 1, ranks,
                            item(mine.value, at), others, item(theirs.value, at));
  finding.advice =
      "ranks of one group must launch the same collectives in the same order: find the branch that "
      "differs by rank, or the compiler pass that moved them (compare post-grad graphs and "
      "torch._inductor.config of both ranks)";
  const std::size_t from = at > 3 ? at - 3 : 0;
  finding.evidence.push_back(fmt::format("{}: {}", ranks, list(mine.value, from)));
  finding.evidence.push_back(fmt::format("{}: {}", others, list(theirs.value, from)));
  return finding;
}

}  // namespace

void compare_schedules(const CompileJob& job, bool graphs_agree, Report& report) {
  if (!graphs_agree) return;
  for (const auto& [key, entry] : schedules_by_function(job)) {
    std::size_t most = 0;
    for (const auto& [rank, graphs] : entry.by_rank) most = std::max(most, graphs.size());
    for (std::size_t nth = 0; nth < most; ++nth) {
      std::map<int, Sequence> by_rank;
      std::string compile_id;
      for (const auto& [rank, graphs] : entry.by_rank) {
        if (nth >= graphs.size()) continue;
        by_rank[rank] = graphs[nth].second;
        compile_id = graphs[nth].first;
      }
      const auto clusters = cluster(by_rank);
      for (std::size_t i = 1; i < clusters.size(); ++i) {
        report.findings.push_back(
            schedule_finding(entry.function, compile_id, clusters[i], clusters.front()));
      }
    }
  }
}

void compare_execution(const CompileJob& job, const std::vector<FunctionGraphs>& graphs,
                       Report& report) {
  // Equal graphs get equal names, whatever ids the ranks gave them.
  std::map<std::pair<int, std::string>, std::string> names;
  for (const FunctionGraphs& one : graphs) {
    for (const auto& [rank, list_of] : one.by_rank) {
      for (const RankGraph& graph : list_of) {
        names.try_emplace({rank, graph.compile_id},
                          fmt::format("{:x}", graph.graph->unordered_hash));
      }
    }
  }
  std::map<int, Sequence> by_rank, ids;
  for (const auto& [rank, value] : job.prefer_structured(&CompileFacts::execution_orders)) {
    if (rank < 0) continue;
    for (const std::string& id : value->compile_ids) {
      const auto found = names.find({rank, id});
      // One function compiled twice may give one graph: the id still tells them apart.
      by_rank[rank].push_back(found == names.end() ? id : found->second + " " + id);
      ids[rank].push_back(id);
    }
  }
  const auto clusters = cluster(by_rank);
  for (std::size_t i = 1; i < clusters.size(); ++i) {
    const Sequence& mine = clusters[i].value;
    const Sequence& theirs = clusters.front().value;
    const std::size_t at = first_difference(mine, theirs);
    const Sequence& my_ids = ids.at(*clusters[i].ranks.begin());
    const Sequence& their_ids = ids.at(*clusters.front().ranks.begin());
    const std::string ranks = describe_ranks(known_ranks(clusters[i].ranks));
    const std::string others = describe_ranks(known_ranks(clusters.front().ranks));
    const bool stopped = at == mine.size() || at == theirs.size();
    Finding finding;
    finding.code = "execution_order_mismatch";
    finding.severity = stopped ? Severity::kWarning : Severity::kError;
    finding.weight = 450;
    finding.where.ranks = known_ranks(clusters[i].ranks);
    const std::string& id = at < my_ids.size() ? my_ids[at] : my_ids.back();
    const CompiledFunction function = FunctionNames(job).of(*clusters[i].ranks.begin(), id);
    finding.where.frame = frame_label(function.name, id);
    set_place(finding, function);
    finding.what =
        stopped ? fmt::format("{} ran {} compiled graphs, {} ran {}", ranks, mine.size(), others,
                              theirs.size())
                : fmt::format("{} ran compiled graphs in another order than {}", ranks, others);
    finding.why = fmt::format("execution {} was graph [{}] on {}, [{}] on {}", at + 1,
                              item(my_ids, at), ranks, item(their_ids, at), others);
    finding.advice =
        "if the graphs hold collectives, the ranks wait for each other in different calls: make "
        "the "
        "order of calls the same on all ranks (no branch on the rank, same order of data)";
    const std::size_t from = at > 3 ? at - 3 : 0;
    finding.evidence.push_back(fmt::format("{}: {}", ranks, list(my_ids, from)));
    finding.evidence.push_back(fmt::format("{}: {}", others, list(their_ids, from)));
    report.findings.push_back(std::move(finding));
  }
}

}  // namespace monograph::diagnose
