#include "diagnose/compile/rank_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "diagnose/compile/rank_schedules.h"
#include "diagnose/compile/rank_settings.h"
#include "diagnose/compile/tensor_meta.h"
#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

// Later stages inherit what an earlier one has: the order in which differences are looked for.
int stage_order(std::string_view stage) {
  constexpr std::string_view kOrder[] = {"dynamo",      "aot_joint",    "aot_inference",
                                         "aot_forward", "aot_backward", "post_grad"};
  for (int i = 0; i < 6; ++i) {
    if (kOrder[i] == stage) return i;
  }
  return 6;
}

std::string stage_words(std::string_view stage) {
  if (stage == "dynamo") return "the traced graph";
  if (stage == "post_grad") return "the graph after Inductor's passes";
  if (stage.starts_with("aot_")) return fmt::format("the {} graph", stage.substr(4));
  return fmt::format("the graph '{}'", stage);
}

using Hashes = std::vector<std::uint64_t>;

// What identifies a rank's graphs whatever the order in which it compiled them. Graphs that are
// equal but for a harmless order get one number.
Hashes sorted_hashes(const std::vector<RankGraph>& graphs) {
  Hashes hashes;
  for (const RankGraph& one : graphs) {
    hashes.push_back(one.graph->unordered_hash * 31 + one.graph->collectives_hash);
  }
  std::sort(hashes.begin(), hashes.end());
  return hashes;
}

// The graphs of `a` that `b` has not, in order.
std::vector<RankGraph> without(const std::vector<RankGraph>& a, const std::vector<RankGraph>& b) {
  std::vector<RankGraph> rest;
  std::vector<bool> used(b.size(), false);
  for (const RankGraph& one : a) {
    bool found = false;
    for (std::size_t i = 0; i < b.size() && !found; ++i) {
      if (used[i] || !is_same_graph(*one.graph, *b[i].graph)) continue;
      used[i] = found = true;
    }
    if (!found) rest.push_back(one);
  }
  return rest;
}

std::string node_line(const NormalGraph& graph, std::size_t at) {
  if (at >= graph.nodes.size()) return "(the graph ends here)";
  const GraphNode& node = graph.nodes[at];
  std::string text = node.text.substr(0, 200);
  if (!node.file.empty()) text += fmt::format("   # {}:{}", node.file, node.line);
  if (!node.code.empty()) text += fmt::format(": {}", node.code.substr(0, 120));
  return text;
}

std::vector<std::string> collectives_of(const NormalGraph& graph) {
  std::vector<std::string> ops;
  for (const GraphNode& node : graph.nodes) {
    if (node.is_collective) ops.push_back(node.op.substr(node.op.rfind("functional.") + 11));
  }
  return ops;
}

// The statement itself or, where it comes from inside a library, the last before it that does not:
// what a user can look at. nullptr if there is none.
const GraphNode* nearest_user_code(const NormalGraph& graph, std::size_t at) {
  if (at >= graph.nodes.size()) return nullptr;
  for (std::size_t i = at + 1; i-- > 0;) {
    const GraphNode& node = graph.nodes[i];
    if (!node.file.empty() && !is_library_file(node.file)) return &node;
  }
  return graph.nodes[at].file.empty() ? nullptr : &graph.nodes[at];
}

struct Difference {
  const FunctionGraphs* graphs = nullptr;
  std::set<int> ranks, others;
  RankGraph mine, theirs;
};

Finding finding_of(const Difference& difference, bool balanced) {
  const NormalGraph& a = *difference.mine.graph;
  const NormalGraph& b = *difference.theirs.graph;
  const std::size_t at = first_difference(a, b);
  CompiledFunction function = difference.graphs->function;
  for (const GraphNode& node : a.nodes) {  // text logs do not name the function: its code does
    if (function.name.empty()) function.name = node.function;
  }
  const std::string ranks = describe_ranks(known_ranks(difference.ranks));
  const std::string others = describe_ranks(known_ranks(difference.others));
  const bool numbers = differs_in_numbers_only(a, b);
  const bool collectives =
      a.collectives_hash != b.collectives_hash && collectives_of(a) != collectives_of(b);
  Finding finding;
  finding.code = "graph_mismatch";
  finding.severity = numbers || balanced ? Severity::kWarning : Severity::kError;
  finding.weight = collectives ? 500 : 50;
  finding.where.ranks = known_ranks(difference.ranks);
  finding.where.frame = frame_label(function.name, difference.mine.compile_id);
  set_place(finding, function);
  const GraphNode* node = nearest_user_code(a, at);
  if (node != nullptr) {
    finding.where.file = node->file;
    finding.where.line = node->line;
  }
  finding.what = fmt::format("{} compiled another graph of {} than {}", ranks,
                             function.name.empty() ? "a function" : function.name, others);
  if (numbers) finding.what += ": other sizes or constants";
  finding.why =
      fmt::format("{} first differs at statement {}: {} has `{}`, {} `{}`",
                  stage_words(difference.graphs->stage), at + 1, ranks,
                  at < a.nodes.size() ? a.nodes[at].text.substr(0, 160) : "its end", others,
                  at < b.nodes.size() ? b.nodes[at].text.substr(0, 160) : "has its end");
  if (node != nullptr && node != &a.nodes[at]) {
    finding.why +=
        fmt::format("; it is called from {}:{} or behind it", base_name(node->file), node->line);
  }
  if (collectives) {
    finding.why += fmt::format(
        "; their collectives differ too ({} against {}), so they will hang "
        "or exchange wrong data",
        collectives_of(a).size(), collectives_of(b).size());
  }
  finding.advice =
      numbers ? "give all ranks inputs of the same sizes (drop_last=True or padding), or mark the "
                "dimension dynamic; constants that depend on the rank belong in a tensor"
              : "make the code take the same path on every rank: a branch at this line depends on "
                "the rank, its data or its configuration";
  if (balanced) finding.advice += "; if these are stages of a pipeline, this is meant";
  finding.evidence.push_back(
      fmt::format("{} [{}]: {}", ranks, difference.mine.compile_id, node_line(a, at)));
  finding.evidence.push_back(
      fmt::format("{} [{}]: {}", others, difference.theirs.compile_id, node_line(b, at)));
  if (at > 0) finding.evidence.push_back("after equal: " + node_line(a, at - 1));
  finding.evidence.push_back(
      fmt::format("{} statements against {}", a.nodes.size(), b.nodes.size()));
  return finding;
}

// Ranks by the graphs that they have, the largest cluster first.
std::vector<Cluster<Hashes>> cluster_ranks(const FunctionGraphs& graphs) {
  std::map<Hashes, std::set<int>> clusters;
  for (const auto& [rank, list] : graphs.by_rank) clusters[sorted_hashes(list)].insert(rank);
  std::vector<Cluster<Hashes>> sorted;
  for (auto& [hashes, ranks] : clusters) sorted.push_back({std::move(ranks), hashes});
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::make_tuple(b.ranks.size(), *a.ranks.begin()) <
           std::make_tuple(a.ranks.size(), *b.ranks.begin());
  });
  return sorted;
}

std::string function_key(const CompiledFunction& function) {
  return fmt::format("{}|{}|{}", function.name, base_name(function.file), function.line);
}

// All ranks that have this graph, whatever else they have.
std::set<int> ranks_with(const FunctionGraphs& graphs, const RankGraph& wanted) {
  std::set<int> ranks;
  for (const auto& [rank, list] : graphs.by_rank) {
    const bool has = std::any_of(list.begin(), list.end(), [&](const RankGraph& one) {
      return is_same_graph(*one.graph, *wanted.graph);
    });
    if (has) ranks.insert(rank);
  }
  return ranks;
}

// Whether every rank has the same operations on the same shapes, with constants of its own.
bool constants_vary(const FunctionGraphs& graphs, const std::vector<RankGraph>& reference) {
  for (const auto& [rank, list] : graphs.by_rank) {
    if (list.size() != reference.size()) return false;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!differs_in_numbers_only(*list[i].graph, *reference[i].graph)) return false;
      if (list[i].graph->inputs != reference[i].graph->inputs) return false;
    }
  }
  return true;
}

// Offsets of a sharded table and the like: no fault.
Finding rank_constants(const FunctionGraphs& graphs, const std::set<int>& example,
                       const std::vector<RankGraph>& reference) {
  const RankGraph& other = graphs.by_rank.at(*example.begin()).front();
  Finding finding = finding_of(
      {&graphs, example, ranks_with(graphs, reference.front()), other, reference.front()}, false);
  finding.code = "rank_constants";
  finding.severity = Severity::kNote;
  finding.where.ranks.clear();
  for (const auto& [rank, list] : graphs.by_rank) finding.where.ranks.push_back(rank);
  finding.what = "each rank compiled the same graph with constants of its own";
  finding.advice =
      "fine for sharded tables; otherwise pass the rank's number as a tensor, so that "
      "all ranks share one compiled artifact";
  return finding;
}

// Ranks with a graph that others lack; told as a recompile where the log has its reason.
void add_more_often(const FunctionGraphs& graphs, const RankGraph& extra, const CompileJob& job,
                    Report& report) {
  const std::set<int> ranks = ranks_with(graphs, extra);
  for (const auto& [rank, value] : job.all(&CompileFacts::recompiles)) {
    if (ranks.contains(rank)) return;
  }
  Finding finding;
  finding.code = "graph_count_mismatch";
  finding.weight = 20;
  finding.where.ranks = known_ranks(ranks);
  std::string name = graphs.function.name;
  for (const GraphNode& node : extra.graph->nodes) {
    if (name.empty()) name = node.function;
  }
  finding.where.frame = frame_label(name, extra.compile_id);
  set_place(finding, graphs.function);
  finding.what =
      fmt::format("{} compiled {} more often than the other ranks",
                  describe_ranks(finding.where.ranks), name.empty() ? "a function" : name);
  finding.why = fmt::format("only there is graph [{}]; the log does not say what made it recompile",
                            extra.compile_id);
  if (!extra.graph->inputs.empty())
    finding.why += "; its inputs begin with " + extra.graph->inputs[0];
  finding.advice =
      "run with TORCH_LOGS=recompiles to see the guard that failed; the usual cause is "
      "a batch of another size on one rank";
  for (const std::string& input : extra.graph->inputs) {
    if (finding.evidence.size() < 8) finding.evidence.push_back(input);
  }
  report.findings.push_back(std::move(finding));
}

void compare_function(const FunctionGraphs& graphs, const CompileJob& job,
                      std::set<std::string>& told, Report& report) {
  const auto clusters = cluster_ranks(graphs);
  if (clusters.size() < 2) return;
  const bool balanced = clusters.size() > 1 && job.ranks.size() > 2 &&
                        std::all_of(clusters.begin(), clusters.end(),
                                    [&](const auto& cluster) {
                                      return cluster.ranks.size() == clusters.front().ranks.size();
                                    }) &&
                        clusters.front().ranks.size() > 1;
  const std::vector<RankGraph>& reference = graphs.by_rank.at(*clusters.front().ranks.begin());
  if (clusters.size() > 2 && clusters.size() == graphs.by_rank.size() &&
      constants_vary(graphs, reference)) {
    told.insert(function_key(graphs.function));
    report.findings.push_back(rank_constants(graphs, clusters[1].ranks, reference));
    return;
  }
  for (std::size_t i = 1; i < clusters.size(); ++i) {
    const std::vector<RankGraph>& own = graphs.by_rank.at(*clusters[i].ranks.begin());
    const std::vector<RankGraph> mine = without(own, reference);
    const std::vector<RankGraph> theirs = without(reference, own);
    if (mine.empty() || theirs.empty()) {  // one compiled more often
      const std::vector<RankGraph>& more = mine.empty() ? theirs : mine;
      if (told.insert("more|" + function_key(graphs.function)).second) {
        add_more_often(graphs, more.front(), job, report);
      }
      continue;
    }
    told.insert(function_key(graphs.function));
    report.findings.push_back(
        finding_of({&graphs, clusters[i].ranks, ranks_with(graphs, theirs.front()), mine.front(),
                    theirs.front()},
                   balanced));
  }
}

// Functions that some ranks compiled and others never did.
void compare_sets(const CompileJob& job, Report& report) {
  std::map<std::string, std::pair<CompiledFunction, std::set<int>>> functions;
  std::set<int> logged;
  std::set<int> cut_off;  // their logs end while they compile: told as that
  for (const auto& [rank, value] : job.prefer_structured(&CompileFacts::compilations)) {
    if (rank < 0 || value->function.name.empty() || value->is_backward) continue;
    if (!value->finished) cut_off.insert(rank);
    logged.insert(rank);
    auto& [function, ranks] = functions[function_key(value->function)];
    function = value->function;
    ranks.insert(rank);
  }
  std::map<std::set<int>, std::vector<CompiledFunction>> missing;
  for (const auto& [key, entry] : functions) {
    if (entry.second.size() < logged.size()) missing[entry.second].push_back(entry.first);
  }
  for (const auto& [ranks, list] : missing) {
    std::set<int> lacking;
    std::set_difference(logged.begin(), logged.end(), ranks.begin(), ranks.end(),
                        std::inserter(lacking, lacking.end()));
    if (std::includes(cut_off.begin(), cut_off.end(), lacking.begin(), lacking.end())) continue;
    Finding finding;
    finding.code = "function_mismatch";
    const bool few = lacking.size() <= ranks.size();
    finding.where.ranks = known_ranks(few ? lacking : ranks);
    finding.where.frame = list.front().name;
    finding.where.file = list.front().file;
    finding.where.line = list.front().line;
    finding.weight = 10;
    finding.what = fmt::format(
        "{} compiled {}{}, {} never did", describe_ranks(known_ranks(ranks)), list.front().name,
        list.size() > 1 ? fmt::format(" and {} more functions", list.size() - 1) : "",
        describe_ranks(known_ranks(lacking)));
    finding.why = "the ranks ran different code, or the log of some ends early";
    finding.advice =
        "look for a branch on the rank, or at whether the ranks named died; if these "
        "are stages of a pipeline, this is meant";
    for (const CompiledFunction& function : list) {
      if (finding.evidence.size() < 8) {
        finding.evidence.push_back(
            fmt::format("{} ({}:{})", function.name, function.file, function.line));
      }
    }
    report.findings.push_back(std::move(finding));
  }
}

}  // namespace

FunctionNames::FunctionNames(const CompileJob& job) {
  for (const auto& [rank, value] : job.all(&CompileFacts::compilations)) {
    if (!value->function.name.empty()) functions_[{rank, value->compile_id}] = value->function;
  }
  for (const auto& [rank, value] : job.all(&CompileFacts::recompiles)) {
    if (value->function.name.empty()) continue;
    functions_.try_emplace({rank, value->compile_id}, value->function);
    for (const GuardFailure& failure : value->failures) {
      functions_.try_emplace({rank, std::string(without_attempt(failure.entry))}, value->function);
    }
  }
}

CompiledFunction FunctionNames::of(int rank, const std::string& compile_id) const {
  const auto found = functions_.find({rank, compile_id});
  if (found != functions_.end()) return found->second;
  return {"", fmt::format("[{}]", compile_id.substr(0, compile_id.rfind('/'))), 0};
}

std::vector<FunctionGraphs> graphs_by_function(const CompileJob& job) {
  const FunctionNames names(job);
  std::map<std::tuple<int, std::string, std::string>, FunctionGraphs> found;
  std::map<const std::string*, std::shared_ptr<const NormalGraph>> parsed;
  for (const Ranked<GraphText>& record : job.prefer_structured(&CompileFacts::graphs)) {
    const auto& [rank, value] = record;
    if (rank < 0) continue;
    std::shared_ptr<const NormalGraph>& graph = parsed[value->text.get()];
    if (!graph) graph = std::make_shared<const NormalGraph>(parse_graph(*value->text));
    const CompiledFunction function = names.of(record);
    FunctionGraphs& entry =
        found[{stage_order(value->stage), value->stage, function_key(function)}];
    entry.function = function;
    entry.stage = value->stage;
    entry.by_rank[rank].push_back({value->compile_id, graph});
  }
  std::vector<FunctionGraphs> sorted;
  for (auto& [key, entry] : found) sorted.push_back(std::move(entry));
  return sorted;
}

void conclude_ranks(const CompileJob& job, Report& report) {
  if (job.ranks.size() < 2) return;
  std::set<std::string> told;  // functions whose difference was told at an earlier stage
  const std::vector<FunctionGraphs> all = graphs_by_function(job);
  for (const FunctionGraphs& graphs : all) {
    if (!told.contains(function_key(graphs.function))) compare_function(graphs, job, told, report);
  }
  compare_sets(job, report);
  compare_settings(job, report);
  const bool graphs_agree = told.empty();
  compare_schedules(job, graphs_agree, report);
  if (graphs_agree) compare_tensor_meta(job, report);
  compare_execution(job, all, report);
}

}  // namespace monograph::diagnose
