#include "passes/distribute/compress_exchange.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ops/collective/collective.h"
#include "passes/distribute/power_sgd_exchange.h"
#include "passes/distribute/qsgd_exchange.h"
#include "passes/distribute/top_k_exchange.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Value;
using ops::Compression;
using Method = Compression::Method;

// Of gradients that go together: 8 MB, 1 MB at 4 bits, so that the last group is soon complete.
constexpr int64_t kGroupElements = int64_t{1} << 21;

bool is_marked(const Node& node) {
  return node.attributes().contains("compress") &&
         (node.is("all_reduce") || node.is("reduce_scatter"));
}

void unmark(Node& node, ops::Builder& build, ir::ValueMap<Value>& replaced) {
  ir::Attributes attributes = node.attributes();
  attributes.erase("compress");
  attributes.erase("gradient");
  replaced[node.result()] = build.emit(node.op(), {node.operand(0)}, std::move(attributes));
}

// Marked nodes that are exchanged together: their operands stand before the first of them.
using Group = std::vector<Node*>;

class ExchangeCompression {
 public:
  ExchangeCompression(ir::Graph& graph, PassContext& context)
      : graph_(graph), build_(graph), context_(context) {
    find_groups();
  }

  ExchangeSavings run() {
    std::vector<std::unique_ptr<Node>> nodes = graph_.take_nodes(), dropped;
    // States first: an exchange may read one that its step reads later.
    const auto is_state = [](const auto& node) { return node->is_placeholder(); };
    std::stable_partition(nodes.begin(), nodes.end(), is_state);
    for (auto& node : nodes) {
      if (!is_marked(*node)) {
        graph_.append(std::move(node));
        continue;
      }
      const auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& each) {
        return each.front() == node.get();
      });
      if (group != groups_.end()) compress(*group);
      dropped.push_back(std::move(node));
    }
    graph_.substitute(replaced_);
    graph_.renumber();
    return savings_;
  }

 private:
  void find_groups() {
    for (const auto& node : graph_.nodes()) {
      if (!is_marked(*node)) continue;
      const auto joins = [&](const Group& group) { return can_join(*node, group); };
      const auto group = std::find_if(groups_.begin(), groups_.end(), joins);
      if (group == groups_.end()) {
        groups_.push_back({node.get()});
      } else {
        group->push_back(node.get());
      }
    }
  }

  static bool can_join(const Node& node, const Group& group) {
    const Node& first = *group.front();
    if (!node.is("all_reduce") || !first.is("all_reduce")) return false;
    for (const char* name : {"compress", "axis", "size", "op"}) {
      if (node.attributes().at(name) != first.attributes().at(name)) return false;
    }
    int64_t total = node.operand(0).type().num_elements();
    for (const Node* each : group) total += each->operand(0).type().num_elements();
    return node.operand(0).node->id() < first.id() && total <= kGroupElements;
  }

  Value now(Value value) const {
    const auto found = replaced_.find(value);
    return found == replaced_.end() ? value : found->second;
  }

  void compress(const Group& group) {
    const Node& first = *group.front();
    build_.set_phase(first.phase());
    build_.set_provenance(first.provenance());
    Exchange exchange{first.attribute<std::string>("axis"),
                      first.attribute<int64_t>("size"),
                      ops::parse_compression(first.attribute<std::string>("compress")),
                      {}};
    Group members;
    for (Node* node : group) {
      node->set_operand(0, now(node->operand(0)));
      check_node(*node);
      if (!is_worth(*node, exchange.compression)) {
        context_.remark(*node, "not compressed: factors would be more than half of it");
        unmark(*node, build_, replaced_);
        continue;
      }
      members.push_back(node);
      exchange.gradients.push_back({node->attribute<std::string>("gradient"), node->operand(0)});
    }
    if (!members.empty()) replace(members, exchange);
  }

  static void check_node(const Node& node) {
    check(node.operand(0).dtype() == ir::DType::kF32 &&
              node.attribute<std::string>("op") == "sum" && node.attributes().contains("gradient"),
          "{} of {} with op {} is to be compressed: it takes f32, sum and a name", node.op(),
          node.operand(0).type().str(), node.attribute<std::string>("op"));
  }

  static bool is_worth(const Node& node, const Compression& compression) {
    if (compression.method != Method::kPowerSgd) return true;
    if (node.is("reduce_scatter") || node.operand(0).shape().rank() < 2) {
      throw_user_error(
          "compression {} of '{}': ranks have parts of it that cut through matrices, which a "
          "low-rank factor needs whole: use qsgd or topk with sharded units",
          compression.str(), node.attribute<std::string>("gradient"));
    }
    return is_worth_factors(matrix_shape(node.operand(0).shape()), compression.rank);
  }

  void replace(const Group& members, const Exchange& exchange) {
    ExchangeBuilder builder(build_, exchange);
    const bool is_scatter = members[0]->is("reduce_scatter");
    std::vector<Value> results;
    switch (exchange.compression.method) {
      case Method::kQsgd:
        if (is_scatter) {
          results = {qsgd_reduce_scatter(exchange, builder)};
        } else {
          results = qsgd_all_reduce(exchange, builder);
        }
        break;
      case Method::kTopK:
        if (is_scatter) {
          results = {top_k_reduce_scatter(exchange, builder)};
        } else {
          results = top_k_all_reduce(exchange, builder);
        }
        break;
      case Method::kPowerSgd:
        results = power_sgd_all_reduce(exchange, builder);
        break;
      case Method::kNone:
        throw_internal_error("an exchange is to be compressed by none");
    }
    int64_t before = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      replaced_[members[i]->result()] = results[i];
      before += ops::collective_step(*members[i]).sent_bytes();
    }
    note(members, exchange, before, builder.sent_bytes());
  }

  void note(const Group& members, const Exchange& exchange, int64_t before, int64_t after) {
    savings_.num_gradients += static_cast<int>(members.size());
    savings_.bytes_before += before;
    savings_.bytes_after += after;
    context_.remark(
        *members[0],
        fmt::format(
            "{} gradients over '{}' by {}: a rank of {} sends {} bytes instead of {}{}",
            members.size(), exchange.axis, exchange.compression.str(), exchange.size, after, before,
            after < before ? ""
                           : ", which is more: stronger compression or fewer ranks would help"));
  }

  ir::Graph& graph_;
  ops::Builder build_;
  PassContext& context_;
  std::vector<Group> groups_;
  ir::ValueMap<Value> replaced_;
  ExchangeSavings savings_;
};

}  // namespace

ExchangeSavings compress_exchange(ir::Graph& graph, PassContext& context) {
  const auto& nodes = graph.nodes();
  if (std::none_of(nodes.begin(), nodes.end(), [](const auto& node) { return is_marked(*node); })) {
    return {};
  }
  context.set_pass("compress_exchange");
  graph.renumber();
  return ExchangeCompression(graph, context).run();
}

}  // namespace monograph::passes
