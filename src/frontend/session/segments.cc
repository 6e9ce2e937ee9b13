#include "frontend/session/segments.h"

#include <unordered_map>

#include "base/error.h"
#include "ir/state_role.h"
#include "ops/registry.h"

namespace monograph::session {
namespace {

using ir::Node;
using ir::Value;

bool is_made_anywhere(const Node& node) {
  return node.is_placeholder() || ops::has_trait(node, ops::kCreation);
}

class Cutter {
 public:
  Cutter(const ir::Graph& graph, const std::vector<trace::HostRead>& reads)
      : graph_(graph), reads_(reads) {}

  std::vector<Segment> run() {
    for (size_t i = 0; i < reads_.size(); ++i) claim(reads_[i].operands, i);
    claim(graph_.roots(), reads_.size());
    find_crossing();
    std::vector<Segment> segments;
    for (size_t i = 0; i <= reads_.size(); ++i) segments.push_back(make(i));
    return segments;
  }

  // What the first read needs, and nothing for others.
  Segment run_first() {
    claim(reads_[0].operands, 0);
    return make(0);
  }

 private:
  // The nodes that `values` need and that no earlier segment has belong to segment `number`.
  void claim(const std::vector<Value>& values, size_t number) {
    std::vector<const Node*> open;
    for (Value value : values) open.push_back(value.node);
    while (!open.empty()) {
      const Node* node = open.back();
      open.pop_back();
      if (is_made_anywhere(*node) || !home_.emplace(node, number).second) continue;
      for (Value operand : node->operands()) open.push_back(operand.node);
    }
  }

  void use(Value value, size_t number) {
    const auto home = home_.find(value.node);
    if (home == home_.end() || home->second == number) return;
    if (!names_.contains(value)) {
      names_[value] = fmt::format("value.{}", names_.size());
      crossing_.push_back(value);
    }
  }

  void find_crossing() {
    for (const auto& node : graph_.nodes()) {
      const auto home = home_.find(node.get());
      if (home == home_.end()) continue;
      for (Value operand : node->operands()) use(operand, home->second);
    }
    for (size_t i = 0; i < reads_.size(); ++i) {
      for (Value operand : reads_[i].operands) use(operand, i);
    }
    for (Value root : graph_.roots()) use(root, reads_.size());
  }

  Segment make(size_t number) {
    Segment segment{std::make_unique<ir::Graph>(graph_.name()), {}};
    inside_.clear();
    out_ = segment.graph.get();
    for (const auto& node : graph_.nodes()) {
      const auto home = home_.find(node.get());
      if (home == home_.end() || home->second != number) continue;
      std::vector<Value> operands;
      for (Value operand : node->operands()) operands.push_back(bring(operand));
      copy(*node, std::move(operands));
    }
    for (Value value : crossing_) {
      if (home_.at(value.node) == number) out_->add_output(names_.at(value), inside_.at(value));
    }
    if (number < reads_.size()) {
      for (Value operand : reads_[number].operands) {
        segment.read.push_back(fmt::format("read.{}", segment.read.size()));
        out_->add_output(segment.read.back(), bring(operand));
      }
    } else {
      add_roots();
    }
    out_->renumber();
    return segment;
  }

  void add_roots() {
    for (const ir::Graph::Output& output : graph_.outputs()) {
      out_->add_output(output.name, bring(output.value));
    }
    for (const ir::Graph::Update& update : graph_.updates()) {
      const Value next = bring(update.next);
      out_->set_update(bring(update.state->result()).node, next);
    }
  }

  // The value as the segment being made has it.
  Value bring(Value value) {
    const auto found = inside_.find(value);
    if (found != inside_.end()) return found->second;
    const Node& node = *value.node;
    if (node.is("input")) {
      return inside_[value] = out_->add_input(node.name(), node.types()[0])->result();
    }
    if (node.is("state")) {
      const auto role = ir::parse_role(node.attribute<std::string>("role")).value();
      return inside_[value] = out_->add_state(node.name(), node.types()[0], role)->result();
    }
    if (is_made_anywhere(node)) {
      std::vector<Value> operands;
      for (Value operand : node.operands()) operands.push_back(bring(operand));
      copy(node, std::move(operands));
      return inside_.at(value);
    }
    return inside_[value] = out_->add_input(names_.at(value), value.type())->result();
  }

  void copy(const Node& node, std::vector<Value> operands) {
    Node* made = out_->add(node.op(), std::move(operands), node.attributes(), node.types());
    made->set_phase(node.phase());
    made->set_provenance(node.provenance());
    for (int i = 0; i < node.num_results(); ++i) {
      inside_[{const_cast<Node*>(&node), i}] = made->result(i);
    }
  }

  const ir::Graph& graph_;
  const std::vector<trace::HostRead> reads_;
  std::unordered_map<const Node*, size_t> home_;  // segment; not of what is made anywhere
  ir::ValueMap<std::string> names_;               // of the crossing values
  std::vector<Value> crossing_;
  ir::Graph* out_ = nullptr;
  ir::ValueMap<Value> inside_;  // of the segment being made
};

}  // namespace

std::vector<Segment> cut_at_reads(const ir::Graph& graph,
                                  const std::vector<trace::HostRead>& reads) {
  return Cutter(graph, reads).run();
}

std::unique_ptr<ir::Graph> extract(const ir::Graph& graph, const std::vector<ir::Value>& values) {
  trace::HostRead read;
  read.operands = values;
  return std::move(Cutter(graph, {read}).run_first().graph);
}

}  // namespace monograph::session
