#include "passes/simplify/merge_equal_nodes.h"

#include <fmt/format.h>

#include "ir/printer.h"
#include "ir/rewriter.h"
#include "ops/collective/transfer.h"
#include "ops/registry.h"

namespace monograph::passes {
namespace {

// Equal for nodes that compute the same: attributes print exactly. Types follow from the rest.
std::string key_of(const ir::Node& node) {
  std::string key = node.op();
  for (const ir::Value operand : node.operands()) {
    key += fmt::format("\n{} {}", fmt::ptr(operand.node), operand.index);
  }
  for (const auto& [name, attribute] : node.attributes()) {
    key += fmt::format("\n{}={}", name, ir::to_text(attribute));
  }
  return key;
}

std::vector<ir::Value> results_of(ir::Node& node) {
  std::vector<ir::Value> results;
  for (int i = 0; i < node.num_results(); ++i) results.push_back(node.result(i));
  return results;
}

}  // namespace

bool merge_equal_nodes(ir::Graph& graph, PassContext& context) {
  std::unordered_map<std::string, ir::Node*> first;
  return ir::rewrite(graph, [&](ir::Node& node) -> ir::Rewrite {
    if (node.is_placeholder() || node.body() != nullptr || ops::is_transfer(node)) {
      return ir::keep();  // each recv gives what the next send has sent
    }
    const auto [found, is_first] = first.emplace(key_of(node), &node);
    if (is_first) return ir::keep();
    const std::string reason = fmt::format("computes what %{} = {} has computed",
                                           found->second->id(), found->second->op());
    if (ops::has_trait(node, ops::kCollective)) {
      context.leave_out(node, reason);
    } else {
      context.remark(node, reason);
    }
    return results_of(*found->second);
  });
}

}  // namespace monograph::passes
