#include "verify/divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "compiler/build_program.h"
#include "ir/printer.h"
#include "ir/state_role.h"
#include "passes/memory/layout.h"
#include "runtime/interpreter.h"
#include "verify/explain/step_nodes.h"

namespace monograph::verify {
namespace {

using ir::Node;
using ir::Value;

// The node as it is printed, with the ops of its body.
std::string description(const Node& node, const ir::ValueNames& names) {
  std::string text = ir::to_text(node, names);
  if (node.body() == nullptr) return text;
  text += " of";
  for (const auto& inner : node.body()->nodes()) {
    if (!inner->is_placeholder()) text += " " + inner->op();
  }
  return text;
}

// One node on given operands, by its reference.
std::vector<ir::Literal> reference_of(Node& node, const ir::ValueMap<ir::Literal>& values) {
  ir::Graph graph;
  runtime::InputMap inputs;
  std::vector<Value> operands;
  for (Value operand : node.operands()) {
    const std::string name = fmt::format("x{}", operands.size());
    inputs[name] = values.at(operand);
    operands.push_back(graph.add_input(name, operand.type())->result());
  }
  Node* made = node.body() != nullptr
                   ? graph.add_fused(std::move(operands), node.body()->clone())
                   : graph.add(node.op(), std::move(operands), node.attributes(), node.types());
  for (int i = 0; i < node.num_results(); ++i) {
    graph.add_output(fmt::format("{}", i), made->result(i));
  }
  runtime::StateMap none;
  return runtime::interpret(graph, inputs, none);
}

std::vector<ir::Literal> run_in_sight(const ir::Graph& graph,
                                      const std::map<std::string, ir::Literal>& inputs,
                                      const std::map<std::string, ir::Literal>& states,
                                      const KernelMaker& make_kernels) {
  const std::unique_ptr<ir::Graph> copy = graph.clone();
  passes::StateLayout where;
  passes::PassContext context;
  const passes::Layout layout = passes::assign_layout(*copy, where, context);
  const ir::Program program = compiler::build_program(*copy, layout, ir::DeviceSpec());
  runtime::Executor executor(program, make_kernels(program.kernels));
  for (const ir::ProgramTensor& input : program.inputs) {
    executor.set_input(input.name, inputs.at(input.name));
  }
  for (const ir::ProgramTensor& state : program.states) {
    executor.write_state(state.name, states.at(state.name));
  }
  executor.run();
  std::vector<ir::Literal> outputs;
  for (const ir::ProgramTensor& output : program.outputs) {
    outputs.push_back(executor.output(output.name));
  }
  return outputs;
}

}  // namespace

std::unique_ptr<ir::Graph> with_all_in_sight(const ir::Graph& graph, std::vector<Value>& seen) {
  auto open = std::make_unique<ir::Graph>(graph.name());
  ir::ValueMap<Value> map;
  for (const auto& node : graph.nodes()) {
    Node* made = nullptr;
    std::vector<Value> operands;
    for (Value operand : node->operands()) operands.push_back(map.at(operand));
    if (node->is("input")) {
      made = open->add_input(node->name(), node->types()[0]);
    } else if (node->is("state")) {
      made = open->add_state(node->name(), node->types()[0],
                             *ir::parse_role(node->attribute<std::string>("role")));
    } else if (node->body() != nullptr) {
      made = open->add_fused(std::move(operands), node->body()->clone());
    } else {
      made = open->add(node->op(), std::move(operands), node->attributes(), node->types());
    }
    made->set_phase(node->phase());
    for (int i = 0; i < node->num_results(); ++i) {
      map[node->result(i)] = made->result(i);
      if (!is_step(*node)) continue;
      open->add_output(fmt::format("{}", seen.size()), made->result(i));
      seen.push_back(node->result(i));
    }
  }
  open->renumber();
  return open;
}

double relative_error(const ir::Literal& found, const ir::Literal& expected) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < found.num_elements(); ++i) {
    const double a = found.get(i), b = expected.get(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      if (std::isfinite(b)) norm += b * b;
      continue;
    }
    if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
    difference += (a - b) * (a - b);
    norm += b * b;
  }
  if (difference == 0) return 0;
  return std::sqrt(difference / std::max(norm, 1e-30));
}

double tolerance_of(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kF64:
      return 1e-10;
    case ir::DType::kF32:
      return 1e-4;
    case ir::DType::kBF16:
      return 1e-2;
    case ir::DType::kF16:
      return 2e-3;
    default:
      return 0;  // integers and conditions are exact
  }
}

std::vector<NodeError> compare_each_node(const ir::Graph& fused,
                                         const std::map<std::string, ir::Literal>& inputs,
                                         const std::map<std::string, ir::Literal>& states,
                                         const KernelMaker& make_kernels) {
  std::vector<Value> seen;
  const std::unique_ptr<ir::Graph> open = with_all_in_sight(fused, seen);
  const std::vector<ir::Literal> found = run_in_sight(*open, inputs, states, make_kernels);
  ir::ValueMap<ir::Literal> values;
  const ir::ValueNames names(fused);
  std::vector<NodeError> errors;
  size_t next = 0;
  for (const auto& node : fused.nodes()) {
    if (node->is_placeholder()) {
      values[node->result()] =
          node->is("input") ? inputs.at(node->name()) : states.at(node->name());
      continue;
    }
    std::vector<ir::Literal> expected = reference_of(*node, values);
    if (is_step(*node)) {
      const ir::Provenance& place = node->provenance();
      NodeError each{description(*node, names), place.scope, place.file, place.line};
      for (int i = 0; i < node->num_results(); ++i, ++next) {
        const double error = relative_error(found[next], expected[i]);
        const double tolerance = tolerance_of(node->types()[i].dtype);
        if (i == 0 || error - tolerance > each.error - each.tolerance) {
          each.error = error;
          each.tolerance = tolerance;
        }
        expected[i] = found[next];  // what comes after is judged on what this step gave
      }
      errors.push_back(std::move(each));
    }
    for (int i = 0; i < node->num_results(); ++i) {
      values[node->result(i)] = std::move(expected[i]);
    }
  }
  return errors;
}

}  // namespace monograph::verify
