#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/literal.h"
#include "ops/op_def.h"

namespace monograph::ops {

// The results of one op on literals, by its reference. UserError as infer and reference give it.
std::vector<ir::Literal> evaluate(std::string_view op, const std::vector<ir::Literal>& operands,
                                  const ir::Attributes& attributes = {});

// A literal drawn uniformly as the sample says; the same for the same `seed` and `stream`.
ir::Literal draw(const SampleOperand& operand, int64_t seed, uint32_t stream);

// One literal for each operand of a sample.
std::vector<ir::Literal> draw_operands(const Sample& sample, int64_t seed);

}  // namespace monograph::ops
