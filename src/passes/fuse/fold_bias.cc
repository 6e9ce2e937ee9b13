#include "passes/fuse/fold_bias.h"

#include <optional>

#include "analysis/iteration_space.h"
#include "ir/rewriter.h"
#include "ops/builder.h"

namespace monograph::passes {
namespace {

using Users = ir::ValueMap<std::vector<ir::Node*>>;

struct BiasedProduct {
  const ir::Node* product;
  ir::Value bias;
};

// add(matmul(a, b), bias), the product perhaps widened before.
std::optional<BiasedProduct> match_sum(const ir::Node& node) {
  if (!node.is("add")) return std::nullopt;
  for (int side : {0, 1}) {
    const ir::Value bias = node.operand(1 - side);
    const ir::Node* product = node.operand(side).node;
    if (product->is("convert")) product = product->operand(0).node;
    if (!product->is("matmul")) continue;
    if (bias.shape() == ir::Shape{product->types()[0].shape[-1]}) return {{product, bias}};
  }
  return std::nullopt;
}

// The sum itself, or the sum narrowed to the product's dtype and otherwise unused.
std::optional<BiasedProduct> match(const Users& users, const ir::Node& node) {
  if (!node.is("convert")) return match_sum(node);
  const ir::Value sum = node.operand(0);
  const auto matched = match_sum(*sum.node);
  if (!matched || matched->product->types()[0].dtype != node.types()[0].dtype) return std::nullopt;
  return users.at(sum).size() == 1 ? matched : std::nullopt;
}

}  // namespace

bool fold_bias(ir::Graph& graph, PassContext& context) {
  const Users users = ir::users_of(graph);
  std::unordered_map<const ir::Node*, BiasedProduct> foldable;
  for (const auto& node : graph.nodes()) {
    const auto matched = match(users, *node);
    if (matched && analysis::is_used_outside_kernels(users, node->result()))
      foldable.emplace(node.get(), *matched);
  }
  ops::Builder build(graph);
  return ir::rewrite(graph, [&](ir::Node& node) -> ir::Rewrite {
    const auto found = foldable.find(&node);
    if (found == foldable.end()) return ir::keep();
    context.remark(node, "folded into its matrix product: no kernel reads the sum");
    const BiasedProduct& matched = found->second;
    ir::Attributes attributes;
    const ir::DType dtype = node.types()[0].dtype;
    if (dtype != matched.product->operand(0).dtype()) attributes["dtype"] = dtype;
    return build.emit("addmm",
                      {matched.bias, matched.product->operand(0), matched.product->operand(1)},
                      attributes);
  });
}

}  // namespace monograph::passes
