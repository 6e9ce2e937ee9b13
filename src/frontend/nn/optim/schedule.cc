#include "frontend/nn/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "frontend/trace/functions.h"
#include "frontend/trace/trace.h"

namespace monograph::optim {

using trace::Tensor;

void Schedule::check() const {
  if (!(peak >= 0) || !(final >= 0) || warmup_steps < 0) {
    throw_user_error("learning rate {}, final {}, warm-up {} steps: none may be negative", peak,
                     final, warmup_steps);
  }
  if (shape != Shape::kConstant && total_steps <= warmup_steps) {
    throw_user_error("schedule of {} steps with {} of warm-up: it needs more steps than warm-up",
                     total_steps, warmup_steps);
  }
}

Tensor Schedule::rate(const Tensor& step) const {
  check();
  Tensor rate = step.trace().full({ir::DType::kF64, {}}, peak);
  if (shape != Shape::kConstant) {
    const double span = static_cast<double>(total_steps - warmup_steps);
    const Tensor done = clamp((step - warmup_steps) * (1 / span), 0, 1);
    const Tensor weight =
        shape == Shape::kLinear ? 1.0 - done : 0.5 * (1.0 + cos(done * std::numbers::pi));
    rate = final + (peak - final) * weight;
  }
  if (warmup_steps == 0) return rate;
  const Tensor rising = (step + 1.0) * (peak / static_cast<double>(warmup_steps));
  return where(lt(step, warmup_steps), rising, rate);
}

double Schedule::rate(int64_t step) const {
  check();
  if (step < warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  }
  if (shape == Shape::kConstant) return peak;
  const double span = static_cast<double>(total_steps - warmup_steps);
  const double done = std::clamp(static_cast<double>(step - warmup_steps) / span, 0.0, 1.0);
  const double weight =
      shape == Shape::kLinear ? 1 - done : 0.5 * (1 + std::cos(std::numbers::pi * done));
  return final + (peak - final) * weight;
}

Schedule::Shape parse_schedule(std::string_view name) {
  if (name == "constant") return Schedule::Shape::kConstant;
  if (name == "linear") return Schedule::Shape::kLinear;
  if (name == "cosine") return Schedule::Shape::kCosine;
  throw_user_error("schedule '{}': use constant, linear or cosine", name);
}

}  // namespace monograph::optim
