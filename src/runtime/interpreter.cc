#include "runtime/interpreter.h"

#include "base/error.h"
#include "ops/collective/collective.h"
#include "ops/registry.h"

namespace monograph::runtime {
namespace {

using ir::Literal;
using ir::Node;
using ir::Value;

ir::DType register_dtype(ir::DType dtype) {
  return dtype == ir::DType::kBF16 || dtype == ir::DType::kF16 ? ir::DType::kF32 : dtype;
}

Literal convert(const Literal& literal, ir::DType dtype) {
  return Literal::from({dtype, literal.type().shape}, [&](int64_t i) { return literal.get(i); });
}

// The values of one graph while it runs. Placeholders are borrowed, the rest is owned and freed
// after its last use.
class Evaluation {
 public:
  Evaluation(const ir::Graph& graph, bool in_registers, const MeshContext* mesh = nullptr)
      : graph_(graph), in_registers_(in_registers), mesh_(mesh) {
    for (const auto& node : graph.nodes()) {
      for (Value operand : node->operands()) last_use_[operand] = node.get();
    }
    for (Value root : graph.roots()) last_use_[root] = nullptr;
  }

  void bind(Node* placeholder, const Literal* literal) {
    borrowed_[placeholder->result()] = literal;
  }

  void run() {
    for (const auto& node : graph_.nodes()) {
      if (node->is_placeholder()) continue;
      evaluate(*node);
      for (Value operand : node->operands()) {
        if (last_use_.at(operand) == node.get()) owned_.erase(operand);
      }
    }
  }

  const Literal& at(Value value) const {
    const auto found = borrowed_.find(value);
    return found != borrowed_.end() ? *found->second : owned_.at(value);
  }

 private:
  void evaluate(Node& node) {
    std::vector<const Literal*> operands;
    for (Value operand : node.operands()) operands.push_back(&at(operand));
    std::vector<Literal> results;
    for (ir::TensorType type : node.types()) {
      if (in_registers_) type.dtype = register_dtype(type.dtype);
      results.emplace_back(std::move(type));
    }
    if (node.is("fused")) {
      run_body(*node.body(), operands, results);
    } else if (mesh_ != nullptr && ops::has_trait(node, ops::kCollective)) {
      exchange(node, operands, results[0]);
    } else {
      ops::op_named(node.op()).reference(node, operands, results);
    }
    for (int i = 0; i < node.num_results(); ++i) {
      const Value result = node.result(i);
      if (last_use_.contains(result)) owned_[result] = std::move(results[i]);
    }
  }

  void exchange(const Node& node, ops::Literals operands, Literal& result) const {
    const ir::CollectiveStep step = ops::collective_step(node);
    if (node.is("all_reduce_start")) {
      ops::copy_range(node, operands, result);
    } else if (!step.is_transfer() && result.type() == operands[0]->type()) {
      result = *operands[0];  // what works in place
    }
    run_collective(
        step, operands[0]->data(), result.data(), communicator_of(step, mesh_),
        step.is_transfer() ? node.attribute_or("tag", std::string("transfer")) : node.op());
  }

  // Results come typed: each output of the body is rounded to the type of its result.
  static void run_body(const ir::Graph& body, ops::Literals operands, std::span<Literal> results) {
    Evaluation evaluation(body, true);
    const std::vector<Node*> inputs = body.inputs();
    check(inputs.size() == operands.size(), "a fused node of {} operands has a body of {} inputs",
          operands.size(), inputs.size());
    std::vector<Literal> widened(operands.size());
    for (size_t i = 0; i < operands.size(); ++i) {
      const ir::DType dtype = operands[i]->type().dtype;
      const bool widen = register_dtype(dtype) != dtype;
      if (widen) widened[i] = convert(*operands[i], register_dtype(dtype));
      evaluation.bind(inputs[i], widen ? &widened[i] : operands[i]);
    }
    evaluation.run();
    for (size_t i = 0; i < results.size(); ++i) {
      const Literal& output = evaluation.at(body.outputs()[i].value);
      const ir::DType dtype = results[i].type().dtype;
      results[i] = output.type().dtype == dtype ? output : convert(output, dtype);
    }
  }

  const ir::Graph& graph_;
  const bool in_registers_;
  const MeshContext* mesh_;
  ir::ValueMap<const Node*> last_use_;  // null: a root, never freed
  ir::ValueMap<const Literal*> borrowed_;
  ir::ValueMap<Literal> owned_;
};

const Literal* find_given(const Node& placeholder, const std::map<std::string, Literal>& given) {
  const auto found = given.find(placeholder.name());
  const std::string& kind = placeholder.op();
  const ir::TensorType& expected = placeholder.types()[0];
  if (found == given.end()) {
    std::vector<std::string> names;
    for (const auto& [name, literal] : given) names.push_back(name);
    throw_user_error("{} '{}' ({}) is missing; given: {}", kind, placeholder.name(), expected.str(),
                     names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  if (found->second.type() != expected) {
    throw_user_error("{} '{}' is {}: the graph takes {}", kind, placeholder.name(),
                     found->second.type().str(), expected.str());
  }
  return &found->second;
}

void refuse_unknown_inputs(const ir::Graph& graph, const InputMap& inputs) {
  std::vector<std::string> known;
  for (const Node* input : graph.inputs()) known.push_back(input->name());
  for (const auto& [name, literal] : inputs) {
    const Node* found = graph.find_placeholder(name);
    if (found != nullptr && found->is("input")) continue;
    throw_user_error("input '{}' is unknown: graph '{}' takes {}", name, graph.name(),
                     known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
  }
}

}  // namespace

std::vector<Literal> interpret(const ir::Graph& graph, const InputMap& inputs, StateMap& states,
                               const MeshContext* mesh) {
  refuse_unknown_inputs(graph, inputs);
  Evaluation evaluation(graph, false, mesh);
  for (Node* input : graph.inputs()) evaluation.bind(input, find_given(*input, inputs));
  for (Node* state : graph.states()) evaluation.bind(state, find_given(*state, states));
  evaluation.run();
  std::vector<Literal> outputs;
  for (const ir::Graph::Output& output : graph.outputs()) {
    outputs.push_back(evaluation.at(output.value));
  }
  // An update may read another state, so all are copied before the first is written.
  std::vector<Literal> updates;
  for (const ir::Graph::Update& update : graph.updates()) {
    updates.push_back(evaluation.at(update.next));
  }
  for (size_t i = 0; i < updates.size(); ++i) {
    states.at(graph.updates()[i].state->name()) = std::move(updates[i]);
  }
  return outputs;
}

}  // namespace monograph::runtime
