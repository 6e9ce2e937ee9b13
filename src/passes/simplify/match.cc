#include "passes/simplify/match.h"

#include <cmath>

namespace monograph::passes {

ir::Node* defined_by(ir::Value value, std::string_view op) {
  return value.node->is(op) ? value.node : nullptr;
}

std::optional<double> constant_of(ir::Value value) {
  if (!value.node->is("full")) return {};
  return ir::round_to(value.dtype(), value.node->attribute<double>("value"));
}

bool is_constant(ir::Value value, double constant) {
  return constant_of(value) == constant;
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::isfinite(value) && std::abs(std::frexp(value, &exponent)) == 0.5;
}

std::vector<int64_t> dims_but_ones(const ir::Shape& shape) {
  std::vector<int64_t> dims;
  for (const int64_t dim : shape.dims()) {
    if (dim != 1) dims.push_back(dim);
  }
  return dims;
}

}  // namespace monograph::passes
