#include "passes/simplify/merge_equal_nodes.h"

#include <fmt/format.h>

#include "ir/node_bytes.h"
#include "ir/rewriter.h"
#include "ops/collective/transfer.h"
#include "ops/registry.h"

namespace monograph::passes {
namespace {

// Equal for nodes that compute the same. Types follow from the rest.
std::string key_of(const ir::Node& node, ir::NodeBytes& bytes) {
  bytes.clear();
  bytes.add(std::string_view(node.op()));
  bytes.add(int64_t{node.num_operands()});
  for (const ir::Value operand : node.operands()) {
    bytes.add(static_cast<int64_t>(reinterpret_cast<intptr_t>(operand.node)));
    bytes.add(int64_t{operand.index});
  }
  bytes.add(node.attributes());
  return std::string(bytes.view());
}

std::vector<ir::Value> results_of(ir::Node& node) {
  std::vector<ir::Value> results;
  for (int i = 0; i < node.num_results(); ++i) results.push_back(node.result(i));
  return results;
}

}  // namespace

bool merge_equal_nodes(ir::Graph& graph, PassContext& context) {
  std::unordered_map<std::string, ir::Node*> first;
  ir::NodeBytes bytes;
  return ir::rewrite(graph, [&](ir::Node& node) -> ir::Rewrite {
    if (node.is_placeholder() || node.body() != nullptr || ops::is_transfer(node)) {
      return ir::keep();  // each recv gives what the next send has sent
    }
    const auto [found, is_first] = first.emplace(key_of(node, bytes), &node);
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
