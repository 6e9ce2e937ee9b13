#include "ops/collective/transfer.h"

namespace monograph::ops {

void check_peer(const InferContext& context) {
  const auto peer = context.attribute<int64_t>("peer");
  const auto size = context.attribute<int64_t>("size");
  if (peer < 0 || peer >= size) context.fail("peer {}: use 0..{}", peer, size - 1);
}

ir::Attributes way_back(const ir::Node& node) {
  ir::Attributes attributes = same_axis(node);
  attributes["peer"] = node.attributes().at("peer");
  const auto tag = node.attribute_or("tag", std::string());
  if (!tag.empty()) attributes["tag"] = tag + ", back";
  return attributes;
}

bool is_transfer(const ir::Node& node) {
  return node.is("send") || node.is("recv") || node.is("send_start") || node.is("recv_start");
}

std::set<std::string> axes_of_transfers(const ir::Graph& graph) {
  std::set<std::string> axes;
  for (const auto& node : graph.nodes()) {
    if (is_transfer(*node)) axes.insert(node->attribute<std::string>("axis"));
  }
  return axes;
}

}  // namespace monograph::ops
