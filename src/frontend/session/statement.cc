#include "frontend/session/statement.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "ir/printer.h"
#include "ops/registry.h"
#include "runtime/cpu/gemm.h"

namespace monograph::session {

bool has_collectives(const ir::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const auto& node) { return ops::has_trait(*node, ops::kCollective); });
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
  statement.graph = ir::to_text(graph);
  return statement;
}

}  // namespace monograph::session
