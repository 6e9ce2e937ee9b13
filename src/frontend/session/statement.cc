#include "frontend/session/statement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "ir/printer.h"
#include "ops/collective/transfer.h"
#include "ops/registry.h"
#include "runtime/cpu/gemm.h"

namespace monograph::session {

bool has_collectives(const ir::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const auto& node) { return ops::has_trait(*node, ops::kCollective); });
}

namespace {

std::string text_of(const ir::CollectiveStep& step) {
  using Kind = ir::CollectiveStep::Kind;
  const bool reduces = step.kind == Kind::kAllReduce || step.kind == Kind::kReduceScatter;
  const std::string how = reduces ? fmt::format(" {}", reduction_name(step.reduction))
                          : step.kind == Kind::kBroadcast || step.kind == Kind::kRecv
                              ? fmt::format(" from {}", step.root)
                          : step.kind == Kind::kSend ? fmt::format(" to {}", step.root)
                                                     : "";
  return fmt::format("{} over {} of {}: {} {}{}", kind_name(step.kind), step.axis, step.size,
                     step.count, ir::dtype_name(step.dtype), how);
}

// Each with what both sides of a transfer call it.
void for_each_collective(
    const ir::Graph& graph, const std::vector<const Build*>& builds,
    const std::function<void(const ir::CollectiveStep&, const std::string&)>& visit) {
  for (const Build* build : builds) {
    if (build == nullptr) continue;
    for (const ir::Step& step : build->compilation.program.steps) {
      const auto* collective = std::get_if<ir::CollectiveStep>(&step.work);
      if (collective != nullptr) visit(*collective, step.name);
    }
  }
  const bool is_interpreted = std::find(builds.begin(), builds.end(), nullptr) != builds.end();
  for (const auto& node : graph.nodes()) {
    if (!is_interpreted || !ops::has_trait(*node, ops::kCollective)) continue;
    visit(ops::collective_step(*node), node->attribute_or("tag", std::string("transfer")));
  }
}

constexpr std::string_view kGraphHash = "graph hash", kProgramHash = "program hash";

}  // namespace

Statement part_of_all_stages(const Statement& statement) {
  Statement part;
  for (const auto& fact : statement.facts) {
    if (fact.first != kGraphHash && fact.first != kProgramHash) part.facts.push_back(fact);
  }
  return part;
}

std::vector<analysis::StageCall> stage_calls(const ir::Graph& graph,
                                             const std::vector<const Build*>& builds) {
  using Kind = analysis::StageCall::Kind;
  std::vector<analysis::StageCall> calls;
  for_each_collective(graph, builds, [&](const ir::CollectiveStep& step, const std::string& name) {
    if (step.axis != ir::kPipelineAxis) return;
    if (!step.is_transfer()) {
      calls.push_back({Kind::kAll, -1, text_of(step)});
      return;
    }
    const bool is_send = step.kind == ir::CollectiveStep::Kind::kSend;
    calls.push_back({is_send ? Kind::kSend : Kind::kRecv, static_cast<int>(step.root),
                     fmt::format("{} {} '{}'", step.count, ir::dtype_name(step.dtype), name)});
  });
  return calls;
}

Statement make_statement(const ir::Graph& graph, const std::vector<const Build*>& builds,
                         const CompileOptions& options, const ir::Mesh& mesh) {
  Statement statement;
  const ir::LinkModel link = link_of(options);
  auto& facts = statement.facts;
  facts = {{"mesh", mesh.str()},
           {"option backend", options.backend},
           {"option mode", options.mode},
           {"option precision", options.precision},
           {"option residual", options.residual},
           {"option deterministic", options.deterministic ? "true" : "false"},
           {"option verify", options.verify},
           {"option comm_optimization_level", fmt::format("{}", options.comm_optimization_level)},
           {"option link", fmt::format("{} s, {} bytes/s", link.latency_s, link.bytes_per_s)},
           {"option disable_pass", fmt::format("{}", fmt::join(options.disabled_passes, ","))},
           {"option stop_after", fmt::format("{}", options.stop_after)},
           {"compiler of this build", __VERSION__},
           {"oneDNN", runtime::gemm_library_version()}};
  facts.emplace_back(kGraphHash, graph.hash().hex());
  for (const Build* build : builds) {
    if (build == nullptr) continue;
    if (options.backend == "cpu") {  // empty while it runs without compiled kernels
      facts.emplace_back("compiler of kernels", build->kernels.compiler);
      facts.emplace_back("processor", build->kernels.machine);
    }
    facts.emplace_back(kProgramHash, hash_of(build->compilation.program.str()).hex());
  }
  for_each_collective(graph, builds, [&](const ir::CollectiveStep& step, const std::string&) {
    statement.collectives.push_back(text_of(step));
  });
  statement.graph = ir::to_text(graph);
  return statement;
}

}  // namespace monograph::session
