#include "frontend/session/statement.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "ir/printer.h"
#include "ops/collective/collective.h"
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
                          : step.kind == Kind::kBroadcast ? fmt::format(" from {}", step.root)
                                                          : "";
  return fmt::format("{} over {} of {}: {} {}{}", kind_name(step.kind), step.axis, step.size,
                     step.count, ir::dtype_name(step.dtype), how);
}

std::vector<std::string> collectives_of(const ir::Graph& graph,
                                        const std::vector<const Build*>& builds) {
  std::vector<std::string> texts;
  for (const Build* build : builds) {
    if (build == nullptr) continue;
    for (const ir::Step& step : build->compilation.program.steps) {
      const auto* collective = std::get_if<ir::CollectiveStep>(&step.work);
      if (collective != nullptr) texts.push_back(text_of(*collective));
    }
  }
  const bool is_interpreted = std::find(builds.begin(), builds.end(), nullptr) != builds.end();
  for (const auto& node : graph.nodes()) {
    const bool is_run = is_interpreted && ops::has_trait(*node, ops::kCollective);
    if (is_run) texts.push_back(text_of(ops::collective_step(*node)));
  }
  return texts;
}

}  // namespace

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
  facts.emplace_back("graph hash", graph.hash().hex());
  for (const Build* build : builds) {
    if (build == nullptr) continue;
    if (options.backend == "cpu") {  // empty while it runs without compiled kernels
      facts.emplace_back("compiler of kernels", build->kernels.compiler);
      facts.emplace_back("processor", build->kernels.machine);
    }
    facts.emplace_back("program hash", hash_of(build->compilation.program.str()).hex());
  }
  statement.collectives = collectives_of(graph, builds);
  statement.graph = ir::to_text(graph);
  return statement;
}

}  // namespace monograph::session
