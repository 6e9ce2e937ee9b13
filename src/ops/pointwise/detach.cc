#include "ops/division.h"
#include "ops/pointwise/pointwise.h"
#include "ops/registry.h"

namespace monograph::ops::defs {

// detach(x) = x, a constant for autodiff
const OpDef detach_op = {
    .name = "detach",
    .doc = "x itself, through which no gradient flows.",
    .operands = {"x"},
    .attributes = {},
    .traits = kViewLike,
    .infer = [](const InferContext& context) { return std::vector{context.operands[0]}; },
    .reference = [](const ir::Node&, Literals operands,
                    std::span<ir::Literal> results) { results[0] = *operands[0]; },
    .placements = divide_same,
    .samples =
        [] {
          std::vector<Sample> samples = samples_unary(-1, 1);
          for (Sample& sample : samples) sample.check_gradient = false;
          return samples;
        },
    .bad_samples =
        [] {
          return std::vector<BadSample>{{{}, {}, "0 operands given: it takes 1 (x)"}};
        },
};

}  // namespace monograph::ops::defs
