#include "frontend/trace/state.h"

#include <cmath>
#include <numbers>

#include "base/philox.h"
#include "frontend/trace/stream.h"

namespace monograph::trace {

ir::Literal Initializer::make(const ir::TensorType& type, std::string_view name,
                              int64_t seed) const {
  const uint32_t stream = stream_of("init:" + std::string(name));
  const auto uniform_at = [&](int64_t i) { return philox_uniform(seed, 0, stream, i); };
  return ir::Literal::from(type, [&](int64_t i) -> double {
    if (kind == Kind::kConstant) return a;
    if (kind == Kind::kUniform) return a + (b - a) * uniform_at(i);
    // Box and Muller, "A note on the generation of random normal deviates" (1958). 1 - u > 0.
    const double radius = std::sqrt(-2 * std::log(1.0 - uniform_at(2 * i)));
    return a + b * radius * std::cos(2 * std::numbers::pi * uniform_at(2 * i + 1));
  });
}

State::State(std::string name, ir::TensorType type, ir::StateRole role, Initializer initializer)
    : data_(std::make_shared<Data>(Data{std::move(name), std::move(type), role, initializer,
                                        std::make_shared<bool>(false)})) {}

}  // namespace monograph::trace
