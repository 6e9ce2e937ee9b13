#include "diagnose/compile/cause_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "diagnose/compile/graph_break.h"
#include "diagnose/compile/root_cause.h"
#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

std::string place_of(std::string_view file, int line) {
  return line > 0 ? fmt::format("{}:{}", base_name(file), line) : std::string(base_name(file));
}

class Builder {
 public:
  CauseGraph graph;

  // Adds one recompile's weight to the node; `key` tells nodes of one kind apart.
  std::size_t node(CauseKind kind, const std::string& key, const std::string& label,
                   const std::string& place, const ExplainedRecompile& one) {
    const auto [found, is_new] = nodes_.try_emplace({kind, key}, graph.nodes.size());
    if (is_new) graph.nodes.push_back({kind, label, place, 0, 0});
    CauseNode& node = graph.nodes[found->second];
    node.count += one.count;
    node.seconds += one.seconds;
    return found->second;
  }

  void edge(std::size_t from, std::size_t to, const ExplainedRecompile& one) {
    const auto [found, is_new] = edges_.try_emplace({from, to}, graph.edges.size());
    if (is_new) graph.edges.push_back({from, to, 0, 0});
    CauseEdge& edge = graph.edges[found->second];
    edge.count += one.count;
    edge.seconds += one.seconds;
  }

  void chain(const CauseChain& way, const ExplainedRecompile& one) {
    for (CauseChain& known : graph.chains) {
      if (known.frame == way.frame && known.guard == way.guard && known.change == way.change) {
        known.count += one.count;
        return;
      }
    }
    graph.chains.push_back(way);
    graph.chains.back().count = one.count;
  }

 private:
  std::map<std::pair<CauseKind, std::string>, std::size_t> nodes_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> edges_;
};

// The same change reaches a function and its continuations under different names of one tensor;
// what else fails is told apart by its name.
std::string change_key(const ExplainedRecompile& one) {
  const Guard& guard = one.guard;
  const bool of_tensor = guard.kind == GuardKind::kSize || guard.kind == GuardKind::kStride ||
                         guard.kind == GuardKind::kDtype || guard.kind == GuardKind::kNumDims ||
                         guard.kind == GuardKind::kRequiresGrad;
  const Continuation continuation = continuation_of(one.recompile->function.name);
  const std::string function =
      continuation.line > 0 ? continuation.function : one.recompile->function.name;
  const std::string file(base_name(one.recompile->function.file));
  if (!of_tensor) return fmt::format("{}|{}|{}", file, function, guard.key());
  return fmt::format("{}|{}|{}|{}", file, function, static_cast<int>(guard.kind), guard.index);
}

std::string reason_of_break(const CompileJob& job, std::string_view file, int line) {
  for (const auto& [rank, value] : job.all(&CompileFacts::breaks)) {
    const SourceFrame place = user_place(*value);
    const bool here = (value->line == line && base_name(value->file) == base_name(file)) ||
                      (place.line == line && base_name(place.file) == base_name(file));
    if (here) return value->reason.substr(0, 80);
  }
  return "graph break";
}

}  // namespace

CauseGraph build_cause_graph(const CompileJob& job) {
  Builder builder;
  std::map<std::size_t, RecompileCause> changes;  // by node: collects the values
  for (const ExplainedRecompile& one : explain_recompiles(job)) {
    const CompiledFunction& function = one.recompile->function;
    const std::string place = place_of(function.file, function.line);
    const std::size_t frame =
        builder.node(CauseKind::kFrame, function.name + place, function.name, place, one);
    const std::string guard_place =
        one.guard.line > 0 ? place_of(one.guard.file, one.guard.line) : place;
    const std::size_t guard = builder.node(CauseKind::kGuard, one.guard.key() + place,
                                           describe_guard(one.guard), guard_place, one);
    const std::size_t change =
        builder.node(CauseKind::kChange, change_key(one), describe_guard(one.guard), "", one);
    RecompileCause& cause = changes[change];
    if (cause.count++ == 0) cause.guard = one.guard;
    add_values(one.guard, cause);
    builder.edge(frame, guard, one);
    builder.edge(guard, change, one);
    CauseChain way{frame, guard, change, std::nullopt, 0};
    const Continuation continuation = continuation_of(function.name);
    if (continuation.line == 0) {
      builder.chain(way, one);
      continue;
    }
    const std::string broken = place_of(function.file, continuation.line);
    const std::size_t earlier =
        builder.node(CauseKind::kBreak, broken,
                     reason_of_break(job, function.file, continuation.line), broken, one);
    builder.edge(change, earlier, one);
    way.earlier_break = earlier;
    builder.chain(way, one);
  }
  CauseGraph graph = std::move(builder.graph);
  for (const auto& [node, cause] : changes) graph.nodes[node].label = describe_changes(cause);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const CauseKind kind = graph.nodes[i].kind;
    if (kind == CauseKind::kChange || kind == CauseKind::kBreak) graph.roots.push_back(i);
  }
  std::stable_sort(graph.roots.begin(), graph.roots.end(), [&](std::size_t a, std::size_t b) {
    const CauseNode &x = graph.nodes[a], &y = graph.nodes[b];
    return std::tie(y.seconds, y.count, x.kind) < std::tie(x.seconds, x.count, y.kind);
  });
  return graph;
}

}  // namespace monograph::diagnose
