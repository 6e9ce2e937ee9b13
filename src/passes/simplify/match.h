#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph.h"

// What the simplify passes recognise nodes by.
namespace monograph::passes {

// The node that defines the value if it is of that op, else null.
ir::Node* defined_by(ir::Value value, std::string_view op);

// The value of every element of a `full`, rounded to its dtype; nothing for another node.
std::optional<double> constant_of(ir::Value value);
bool is_constant(ir::Value value, double constant);

// A power of two, of either sign: multiplying by it is exact save for overflow and subnormals.
bool is_power_of_two(double value);

// Dims other than 1, in order: equal for shapes that differ in nothing but dims of 1.
std::vector<int64_t> dims_but_ones(const ir::Shape& shape);

}  // namespace monograph::passes
