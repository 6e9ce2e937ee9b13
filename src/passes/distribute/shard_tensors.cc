#include "passes/distribute/shard_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/liveness.h"
#include "ir/state_role.h"
#include "ops/division.h"
#include "ops/registry.h"
#include "passes/distribute/sharded_values.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Placement;
using ir::Value;
using Placements = std::vector<Placement>;

class TensorSharding {
 public:
  TensorSharding(std::unique_ptr<ir::Graph> graph, const TensorShards& shards, PassContext& context)
      : before_(std::move(graph)),
        after_(std::make_unique<ir::Graph>(before_->name())),
        build_(*after_),
        shards_(shards),
        moves_(build_, context, shards.axis, shards.size),
        values_(build_, moves_) {
    for (const auto& node : before_->nodes()) {
      if (node->is("pack")) expect_pack(*node);
    }
  }

  std::unique_ptr<ir::Graph> run() {
    for (auto& taken : before_->take_nodes()) {
      build_.set_phase(taken->phase());
      build_.set_provenance(taken->provenance());
      if (divides_state(*taken) || divides(*taken)) {
        dropped_.push_back(std::move(taken));  // values of it are still keys
        continue;
      }
      const std::string why = reads(*taken, Placement::replicate());
      for (int i = 0; i < taken->num_operands(); ++i) {
        taken->set_operand(i, values_.whole(taken->operand(i), why));
      }
      after_->append(std::move(taken));
    }
    for (const auto& output : before_->outputs()) {
      after_->add_output(output.name, values_.whole(output.value, "the step returns it"));
    }
    for (const auto& update : before_->updates()) set_update(update);
    const auto live = analysis::live_nodes(*after_);
    after_->erase_if([&](const Node& node) { return !live.contains(&node); });
    after_->renumber();
    return std::move(after_);
  }

 private:
  // Null: every rank has it as a whole.
  const Placement* shard_of(const Node& node) const {
    if (!node.is("state")) return nullptr;
    const auto found = shards_.states.find(node.name());
    return found == shards_.states.end() ? nullptr : &found->second;
  }

  static std::vector<ir::Shape> operand_shapes(const Node& node) {
    std::vector<ir::Shape> shapes;
    for (Value operand : node.operands()) shapes.push_back(operand.shape());
    return shapes;
  }

  // What is packed beside states that lie in parts lies like them.
  void expect_pack(const Node& pack) {
    Placements placements;
    for (Value operand : pack.operands()) {
      const Placement* shard = shard_of(*operand.node);
      if (shard == nullptr) return;
      placements.push_back(*shard);
    }
    packs_.emplace_back(operand_shapes(pack), std::move(placements));
  }

  const Placements* expected(const Node& pack) const {
    const auto found = std::find_if(packs_.begin(), packs_.end(), [&](const auto& known) {
      return known.first == operand_shapes(pack);
    });
    return found == packs_.end() ? nullptr : &found->second;
  }

  bool divides_state(Node& node) {
    const Placement* shard = shard_of(node);
    if (shard == nullptr) return false;
    const ir::TensorType& whole = node.types()[0];
    const auto role = ir::parse_role(node.attribute<std::string>("role")).value();
    Node* part = after_->add_state(node.name(),
                                   {whole.dtype, shard->part_of(whole.shape, shards_.size)}, role);
    values_.set(node.result(), part->result(), *shard);
    return true;
  }

  // Whether others stand for the node: what its op's rule has one rank do.
  bool divides(Node& node) {
    Placements given;
    for (Value operand : node.operands()) given.push_back(values_.placement(operand));
    if (node.is("pack")) {
      const Placements* known = expected(node);
      if (known == nullptr) return false;
      given = *known;
    }
    const bool is_whole = std::all_of(given.begin(), given.end(),
                                      [](const Placement& each) { return each.is_replicate(); });
    if (is_whole) return false;
    const auto ask = [&] { return ops::divide({node, given, shards_.size, shards_.axis}); };
    std::optional<ops::Division> division = ask();
    if (!division && cut_sequence(node, given)) division = ask();
    if (!division) return false;
    append(node, *division);
    return true;
  }

  // Sequence parallel: summands [batch, length, width] become parts along the length.
  bool cut_sequence(const Node& node, Placements& given) const {
    const bool is_reduction = ops::has_trait(node, ops::kReduction);
    const ir::Shape& shape = is_reduction ? node.operand(0).shape() : node.types()[0].shape;
    const bool is_activation = shards_.is_sequence_parallel && shape.rank() == 3 &&
                               node.phase() != ir::Phase::kOptimizer &&
                               (is_reduction || ops::has_trait(node, ops::kPointwise));
    const Placement parts = Placement::shard(1);
    if (!is_activation || !parts.fits(shape, shards_.size)) return false;
    bool is_cut = false;
    for (int i = 0; i < node.num_operands(); ++i) {
      if (!given[i].is_partial() || node.operand(i).shape() != shape) continue;
      given[i] = parts;
      is_cut = true;
    }
    return is_cut;
  }

  void append(Node& node, const ops::Division& division) {
    std::vector<Value> operands, results;
    for (int i = 0; i < node.num_operands(); ++i) {
      const Placement& wanted = division.operands[i];
      operands.push_back(values_.moved(node.operand(i), wanted, reads(node, wanted)));
    }
    if (division.local) {
      results = division.local(build_, operands, moves_.coordinate());
    } else {
      Node* local = build_.emit_node(node.op(), std::move(operands), division.attributes);
      for (int i = 0; i < local->num_results(); ++i) results.push_back(local->result(i));
    }
    for (int i = 0; i < node.num_results(); ++i) {
      values_.set(node.result(i), results[i], division.results[i]);
    }
  }

  static std::string reads(const Node& node, const Placement& wanted) {
    return fmt::format("'{}'{}{} reads {}", node.op(),
                       node.provenance().scope.empty() ? "" : " of ", node.provenance().scope,
                       wanted.is_replicate() ? "it as a whole" : wanted.str() + " of it");
  }

  void set_update(const ir::Graph::Update& update) {
    constexpr std::string_view kWhy = "it is the new value of a state";
    const Placement* shard = shard_of(*update.state);
    if (shard == nullptr) {
      after_->set_update(update.state, values_.whole(update.next, kWhy));
    } else {
      after_->set_update(values_.as_made(update.state->result()).node,
                         values_.moved(update.next, *shard, kWhy));
    }
  }

  std::unique_ptr<ir::Graph> before_, after_;
  ops::Builder build_;
  const TensorShards& shards_;
  AxisMoves moves_;
  ShardedValues values_;
  std::vector<std::pair<std::vector<ir::Shape>, Placements>> packs_;  // of states in parts
  std::vector<std::unique_ptr<Node>> dropped_;
};

}  // namespace

std::unique_ptr<ir::Graph> shard_tensors(std::unique_ptr<ir::Graph> graph,
                                         const TensorShards& shards, PassContext& context) {
  if (shards.states.empty()) return graph;
  context.set_pass("shard_tensors");
  return TensorSharding(std::move(graph), shards, context).run();
}

}  // namespace monograph::passes
