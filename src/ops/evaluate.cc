#include "ops/evaluate.h"

#include <cmath>

#include "base/philox.h"
#include "ops/builder.h"
#include "ops/registry.h"

namespace monograph::ops {

std::vector<ir::Literal> evaluate(std::string_view op, const std::vector<ir::Literal>& operands,
                                  const ir::Attributes& attributes) {
  ir::Graph graph("evaluate");
  std::vector<ir::Value> values;
  std::vector<const ir::Literal*> literals;
  for (const ir::Literal& operand : operands) {
    values.push_back(graph.add_input(fmt::format("x{}", values.size()), operand.type())->result());
    literals.push_back(&operand);
  }
  const ir::Node* node = Builder(graph).emit_node(op, values, attributes);
  std::vector<ir::Literal> results;
  for (const ir::TensorType& type : node->types()) results.emplace_back(type);
  op_named(op).reference(*node, literals, results);
  return results;
}

ir::Literal draw(const SampleOperand& operand, int64_t seed, uint32_t stream) {
  const bool is_floating = ir::is_floating(operand.type.dtype);
  return ir::Literal::from(operand.type, [&](int64_t i) {
    const double u = philox_uniform(seed, 0, stream, i);
    if (is_floating) return operand.low + u * (operand.high - operand.low);
    return operand.low + std::floor(u * (operand.high - operand.low + 1));
  });
}

std::vector<ir::Literal> draw_operands(const Sample& sample, int64_t seed) {
  std::vector<ir::Literal> literals;
  for (const SampleOperand& operand : sample.operands) {
    literals.push_back(draw(operand, seed, static_cast<uint32_t>(literals.size())));
  }
  return literals;
}

}  // namespace monograph::ops
