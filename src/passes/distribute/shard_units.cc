#include "passes/distribute/shard_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analysis/liveness.h"
#include "base/error.h"
#include "ir/mesh.h"
#include "ops/builder.h"
#include "ops/registry.h"
#include "ops/shape/packing.h"
#include "passes/distribute/unit_gathers.h"

namespace monograph::passes {
namespace {

using ir::FlatStates;
using ir::FlatUnit;
using ir::Node;
using ir::Value;

class UnitSharding {
 public:
  UnitSharding(std::unique_ptr<ir::Graph> graph, std::span<const FlatStates> states,
               PassContext& context)
      : before_(std::move(graph)),
        after_(std::make_unique<ir::Graph>(before_->name())),
        build_(*after_),
        context_(context),
        states_(states),
        gathers_(*before_, build_, states, context) {
    find_reductions();
  }

  std::unique_ptr<ir::Graph> run() {
    for (auto& taken : before_->take_nodes()) {
      build_.set_phase(taken->phase());
      build_.set_provenance(taken->provenance());
      gathers_.enter(*taken);
      Node& node = *taken;
      if (visit(node)) {
        after_->append(std::move(taken));
      } else {
        dropped_.push_back(std::move(taken));  // values of it are still keys
      }
      for (const Reduction& reduction : complete_after_[&node]) reduce(reduction, node);
    }
    for (const auto& output : before_->outputs()) {
      after_->add_output(output.name, whole(output.value));
    }
    for (const auto& update : before_->updates()) set_update(update);
    check_updates();
    const auto live = analysis::live_nodes(*after_);
    after_->erase_if([&](const Node& node) { return !live.contains(&node); });
    after_->renumber();
    return std::move(after_);
  }

 private:
  // A value of which this rank has a part: of a flat range, along its only axis.
  struct Part {
    Value value;
    const FlatUnit* unit = nullptr;
  };

  // The sum of a unit's gradients over the unit's axis.
  struct Reduction {
    const FlatUnit* unit = nullptr;
    Node* all_reduce = nullptr;
  };

  void find_reductions() {
    for (const auto& node : before_->nodes()) {
      if (!node->is("all_reduce") || !node->operand(0).node->is("pack")) continue;
      const auto is_of = [&](const FlatStates& states) {
        return states.unit->name == node->attribute_or("unit", std::string()) &&
               states.unit->axis == node->attribute<std::string>("axis");
      };
      const auto states = std::find_if(states_.begin(), states_.end(), is_of);
      if (states == states_.end()) continue;
      const Node* last = nullptr;
      for (Value gradient : node->operand(0).node->operands()) {
        if (last == nullptr || last->id() < gradient.node->id()) last = gradient.node;
      }
      complete_after_[last].push_back({states->unit.get(), node.get()});
    }
  }

  // Gradients become this rank's part of their sum as soon as the last of them is there.
  void reduce(const Reduction& reduction, const Node& last) {
    build_.set_phase(ir::Phase::kBackward);
    build_.set_provenance({last.provenance().file, last.provenance().line, reduction.unit->name});
    parts_[reduction.all_reduce->result()] = {
        reduce_scatter(*reduction.all_reduce, *reduction.unit), reduction.unit};
  }

  // Returns whether the node stays.
  bool visit(Node& node) {
    if (gathers_.takes(node)) return false;
    if (node.is("pack") && visit_pack(node)) return false;
    if (node.is("all_reduce") && visit_all_reduce(node)) return false;
    if (const Part* part = part_of(node)) {
      if (ops::has_trait(node, ops::kPointwise)) return visit_pointwise(node, *part);
      if (node.is("sum")) return visit_sum(node, *part);
      if (node.is("unpack")) return visit_unpack(node, *part);
    }
    if (visit_partial(node)) return false;
    for (int i = 0; i < node.num_operands(); ++i) node.set_operand(i, whole(node.operand(i)));
    return true;
  }

  const Part* part_of(Value value) const {
    const auto found = parts_.find(value);
    return found == parts_.end() ? nullptr : &found->second;
  }

  const Part* part_of(const Node& node) const {
    for (Value operand : node.operands()) {
      if (const Part* part = part_of(operand)) return part;
    }
    return nullptr;
  }

  bool visit_pack(const Node& node) {
    const FlatStates* states = gathers_.packed_states(node);
    if (states == nullptr) return false;
    parts_[Value{const_cast<Node*>(&node), 0}] = {gathers_.shard(*states), states->unit.get()};
    return true;
  }

  // A part is summed over other axes as it is.
  bool visit_all_reduce(Node& node) {
    if (part_of(node.result()) != nullptr) return true;
    const Part* part = part_of(node);
    if (part == nullptr) return false;
    build_.set_phase(ir::Phase::kBackward);
    parts_[node.result()] = {build_.emit("all_reduce", {part->value}, node.attributes()),
                             part->unit};
    return true;
  }

  // Gradients are written side by side; zeros go where the range has padding.
  Value reduce_scatter(const Node& all_reduce, const FlatUnit& unit) {
    std::vector<Value> pieces;
    int64_t length = 0;
    const auto add_zeros = [&](int64_t count) {
      if (count > 0) pieces.push_back(build_.full({ir::DType::kF32, {count}}, 0));
    };
    for (Value gradient : all_reduce.operand(0).node->operands()) {
      const int64_t count = gradient.type().num_elements();
      const int64_t padded = ops::padded_elements(count, ir::kFlatAlignment);
      pieces.push_back(build_.reshape(whole(gradient), {count}));
      add_zeros(padded - count);
      length += padded;
    }
    add_zeros(unit.shard_elements() * unit.axis_size - length);
    const Value flat = build_.emit("cat", pieces, {{"axis", int64_t{0}}});
    Node* node = build_.emit_node("reduce_scatter", {flat}, all_reduce.attributes());
    context_.remark(*node, fmt::format("gradients of unit '{}': each rank of '{}' updates its "
                                       "part of {} bytes",
                                       unit.name, unit.axis, unit.shard_elements() * 4));
    return node->result();
  }

  bool visit_pointwise(const Node& node, const Part& part) {
    std::vector<Value> operands;
    for (Value operand : node.operands()) operands.push_back(local(operand, part));
    parts_[Value{const_cast<Node*>(&node), 0}] = {
        build_.emit(node.op(), operands, node.attributes()), part.unit};
    return false;
  }

  // This rank's part of an operand of a pointwise node on parts.
  Value local(Value value, const Part& like) {
    if (const Part* part = part_of(value)) {
      check(part->unit->shard_elements() == like.unit->shard_elements(),
            "two flat ranges of different lengths meet");
      return part->value;
    }
    if (value.type().num_elements() == 1) return whole(value);
    const Node& node = *value.node;
    const ir::Shape shape = {like.unit->shard_elements()};
    if (node.is("full"))
      return build_.full({value.dtype(), shape}, node.attribute<double>("value"));
    if (node.is("expand") && node.operand(0).type().num_elements() == 1) {
      return build_.expand(build_.reshape(whole(node.operand(0)), {1}), shape);
    }
    if (node.is("iota")) {
      const Value place = build_.mul(coordinate(like.unit->axis), static_cast<double>(shape[0]));
      const Value index = build_.emit(
          "iota", {}, {{"shape", shape.dims()}, {"dtype", value.dtype()}, {"axis", int64_t{0}}});
      return build_.add(index, build_.convert(place, value.dtype()));
    }
    if (ops::has_trait(node, ops::kPointwise)) {
      std::vector<Value> operands;
      for (Value operand : node.operands()) operands.push_back(local(operand, like));
      return build_.emit(node.op(), operands, node.attributes());
    }
    throw_user_error(
        "the optimizer's step on unit '{}' reads {} made by '{}' at {}:{}, which each rank has as "
        "a "
        "whole: its gradients must be reduced over axis '{}': "
        "optimizer.step(nn::replicate(loss.backward(), mesh, \"{}\"))",
        like.unit->name, value.type().str(), node.op(), node.provenance().file,
        node.provenance().line, like.unit->axis, like.unit->axis);
  }

  Value coordinate(const std::string& axis) {
    const std::string name = fmt::format("{}{}", ir::kCoordinatePrefix, axis);
    if (Node* known = after_->find_placeholder(name)) return known->result();
    return after_->add_state(name, {ir::DType::kI64, {}}, ir::StateRole::kBuffer)->result();
  }

  // The padding is zero: it adds nothing.
  bool visit_sum(const Node& node, const Part& part) {
    partial_[Value{const_cast<Node*>(&node), 0}] = {
        build_.emit("sum", {part.value}, node.attributes()), part.unit};
    return false;
  }

  // Sums of parts are added up before they are completed.
  bool visit_partial(Node& node) {
    if (!node.is("add")) return false;
    const auto a = partial_.find(node.operand(0)), b = partial_.find(node.operand(1));
    if (a == partial_.end() || b == partial_.end() ||
        a->second.unit->axis != b->second.unit->axis) {
      return false;
    }
    const Part sum = {build_.add(a->second.value, b->second.value), a->second.unit};
    partial_[node.result()] = sum;
    return true;
  }

  bool visit_unpack(Node& node, const Part& part) {
    for (int i = 0; i < node.num_results(); ++i) members_of_[node.result(i)] = {part, i};
    return false;
  }

  // The value as every rank has it.
  Value whole(Value value) {
    if (gathers_.is_unit_value(value)) return gathers_.whole(value);
    if (const auto partial = partial_.find(value); partial != partial_.end()) {
      const auto [found, is_new] = completed_.emplace(value, Value{});
      if (is_new) found->second = complete(partial->second);
      return found->second;
    }
    if (part_of(value) == nullptr && !members_of_.contains(value)) return value;
    throw_user_error(
        "a part of unit '{}' is used by something that is not worked out element by element: only "
        "the optimizer reads updated parameters, gradients and moments of sharded units",
        part_of(value) != nullptr ? part_of(value)->unit->name
                                  : members_of_.at(value).first.unit->name);
  }

  Value complete(const Part& partial) {
    Node* node = build_.emit_node("all_reduce", {partial.value},
                                  {{"axis", partial.unit->axis},
                                   {"size", partial.unit->axis_size},
                                   {"op", std::string("sum")}});
    context_.remark(*node,
                    fmt::format("each rank of '{}' has summed its part only", partial.unit->axis));
    return node->result();
  }

  void set_update(const ir::Graph::Update& update) {
    const auto home = gathers_.find(*update.state);
    if (!home) {
      after_->set_update(update.state, whole(update.next));
      return;
    }
    const auto [states, index] = *home;
    const auto member = members_of_.find(update.next);
    if (member == members_of_.end() || member->second.second != index ||
        member->second.first.unit != states->unit.get()) {
      throw_user_error(
          "state '{}' of unit '{}' is updated by itself: the optimizer updates a sharded unit as a "
          "whole; leave it out of fully_shard",
          update.state->name(), states->unit->name);
    }
    after_->set_update(gathers_.shard(*states).node, member->second.first.value);
    ++num_updated_[states];
  }

  void check_updates() const {
    for (const auto& [states, count] : num_updated_) {
      check(count == states->members.size(), "{} of {} states of '{}' are updated", count,
            states->members.size(), states->name);
    }
  }

  std::unique_ptr<ir::Graph> before_, after_;
  ops::Builder build_;
  PassContext& context_;
  const std::span<const FlatStates> states_;
  UnitGathers gathers_;
  std::unordered_map<const Node*, std::vector<Reduction>> complete_after_;
  ir::ValueMap<Part> parts_, partial_;  // by the value that stands for the whole
  ir::ValueMap<Value> completed_;
  ir::ValueMap<std::pair<Part, int>> members_of_;  // results of an unpack of a part
  std::unordered_map<const FlatStates*, size_t> num_updated_;
  std::vector<std::unique_ptr<Node>> dropped_;
};

}  // namespace

std::unique_ptr<ir::Graph> shard_units(std::unique_ptr<ir::Graph> graph,
                                       std::span<const FlatStates> states, PassContext& context) {
  if (states.empty()) return graph;
  context.set_pass("shard_units");
  graph->renumber();
  return UnitSharding(std::move(graph), states, context).run();
}

}  // namespace monograph::passes
