#include "verify/float64.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "frontend/session/segments.h"
#include "ir/state_role.h"
#include "ops/builder.h"
#include "ops/registry.h"
#include "runtime/interpreter.h"

namespace monograph::verify {
namespace {

using ir::DType;
using ir::Value;

constexpr std::string_view kGradient = "grad.";

DType widened(DType dtype) {
  return ir::is_floating(dtype) ? DType::kF64 : dtype;
}

ir::Attributes widened(ir::Attributes attributes) {
  for (auto& [name, value] : attributes) {
    if (DType* dtype = std::get_if<DType>(&value)) *dtype = widened(*dtype);
  }
  return attributes;
}

double dot(const ir::Literal& a, const ir::Literal& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) sum += a.get(i) * b.get(i);
  return sum;
}

// The gradient's direction and a random one in equal parts, of length about one.
ir::Literal direction_along(const ir::Literal& gradient, uint64_t seed) {
  const double length = std::sqrt(dot(gradient, gradient));
  const double spread = std::sqrt(3.0 / static_cast<double>(gradient.num_elements()));
  return ir::Literal::from(gradient.type(), [&](int64_t i) {
    const double uniform = philox_uniform(static_cast<int64_t>(seed), 0, 0, i);
    return (length > 0 ? gradient.get(i) / length : 0) + spread * (2 * uniform - 1);
  });
}

ir::Literal moved(const ir::Literal& from, const ir::Literal& direction, double by) {
  return ir::Literal::from(from.type(),
                           [&](int64_t i) { return from.get(i) + by * direction.get(i); });
}

}  // namespace

double DirectionalDerivative::error() const {
  const double largest = std::max(std::abs(from_gradient), std::abs(from_difference));
  return largest == 0 ? 0 : std::abs(from_gradient - from_difference) / largest;
}

ir::Literal in_float64(const ir::Literal& literal) {
  return ir::Literal::from({widened(literal.type().dtype), literal.type().shape},
                           [&](int64_t i) { return literal.get(i); });
}

std::unique_ptr<ir::Graph> in_float64(const ir::Graph& graph, double noise) {
  auto wide = std::make_unique<ir::Graph>(graph.name());
  ops::Builder build(*wide);
  ir::ValueMap<Value> map;
  for (const auto& node : graph.nodes()) {
    ir::TensorType type = node->types()[0];
    type.dtype = widened(type.dtype);
    build.set_phase(node->phase());
    build.set_provenance(node->provenance());
    ir::Node* made = nullptr;
    if (node->is("input")) {
      made = wide->add_input(node->name(), type);
    } else if (node->is("state")) {
      made = wide->add_state(node->name(), type,
                             *ir::parse_role(node->attribute<std::string>("role")));
    } else {
      std::vector<Value> operands;
      for (Value operand : node->operands()) {
        const Value wider = map.at(operand);
        const bool takes_f32 = node->is("top_k");
        operands.push_back(takes_f32 ? build.convert(wider, DType::kF32) : wider);
      }
      made = build.emit_node(node->op(), std::move(operands), widened(node->attributes()));
    }
    const bool is_noisy = noise != 0 && (node->is("sum") || ops::has_trait(*node, ops::kLibrary));
    for (int i = 0; i < node->num_results(); ++i) {
      Value value = build.convert(made->result(i), widened(node->types()[i].dtype));
      if (is_noisy && ir::is_floating(value.dtype())) value = build.add(value, noise);
      map[node->result(i)] = value;
    }
  }
  for (const auto& output : graph.outputs()) wide->add_output(output.name, map.at(output.value));
  return wide;
}

std::vector<DirectionalDerivative> compare_with_differences(
    const ir::Graph& gradients, const std::map<std::string, ir::Literal>& inputs,
    const std::map<std::string, ir::Literal>& states) {
  const std::unique_ptr<ir::Graph> wide = in_float64(gradients);
  const std::unique_ptr<ir::Graph> loss = session::extract(*wide, {wide->outputs().at(0).value});
  runtime::InputMap wide_inputs;
  for (const auto& [name, value] : inputs) wide_inputs[name] = in_float64(value);
  runtime::StateMap wide_states;
  for (const auto& [name, value] : states) wide_states[name] = in_float64(value);
  const std::vector<ir::Literal> outputs = runtime::interpret(*wide, wide_inputs, wide_states);
  std::vector<DirectionalDerivative> derivatives;
  for (size_t i = 1; i < outputs.size(); ++i) {
    const std::string& output = wide->outputs()[i].name;
    check(output.starts_with(kGradient), "output '{}' is no gradient", output);
    DirectionalDerivative each{output.substr(kGradient.size())};
    const ir::Literal direction = direction_along(outputs[i], i);
    each.from_gradient = dot(outputs[i], direction);
    const ir::Literal& at = wide_states.at(each.parameter);
    constexpr double kStep = 1e-5;
    runtime::StateMap shifted = wide_states;
    const auto loss_at = [&](double by) {
      shifted[each.parameter] = moved(at, direction, by);
      return runtime::interpret(*loss, wide_inputs, shifted)[0].get(0);
    };
    each.from_difference = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    derivatives.push_back(std::move(each));
  }
  return derivatives;
}

}  // namespace monograph::verify
