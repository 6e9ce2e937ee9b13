#include "frontend/nn/optim/loss_scale.h"

#include <charconv>
#include <limits>

#include "base/error.h"
#include "frontend/trace/functions.h"
#include "frontend/trace/trace.h"

namespace monograph::optim {

using trace::State;
using trace::Tensor;

LossScale::LossScale(LossScaleConfig config)
    : config_(config),
      scale_("optimizer.loss_scale", {ir::DType::kF32, {}}, ir::StateRole::kBuffer,
             trace::Initializer::constant(config.initial)),
      streak_("optimizer.loss_scale_streak", {ir::DType::kI64, {}}, ir::StateRole::kBuffer,
              trace::Initializer::constant(0)) {
  const LossScaleConfig& c = config;
  const bool is_scale = c.initial > 0 && c.initial <= std::numeric_limits<float>::max();
  if (is_scale && c.growth >= 1 && c.backoff > 0 && c.backoff <= 1 && c.growth_interval >= 1)
    return;
  throw_user_error(
      "loss scale of {} with growth {}, backoff {}, growth_interval {}: the scale is above 0 and "
      "finite, growth from 1, backoff in (0, 1], the interval 1 step or more",
      c.initial, c.growth, c.backoff, c.growth_interval);
}

Tensor LossScale::operator()(const Tensor& loss) const {
  return loss * value(loss.trace());
}

Tensor LossScale::value(trace::Trace& trace) const {
  return trace.read(scale_);
}

void LossScale::update(trace::Trace& trace, const Tensor& is_finite) const {
  if (!config_.is_dynamic) return;
  const Tensor scale = value(trace);
  const Tensor streak = trace.read(streak_) + 1;
  const Tensor grown = scale * config_.growth;
  const Tensor is_due = ge(streak, config_.growth_interval);
  const Tensor can_grow = lt(grown, std::numeric_limits<double>::infinity());
  const Tensor kept = where(logical_and(is_due, can_grow), grown, scale);
  trace.update(scale_, where(is_finite, kept, scale * config_.backoff));
  trace.update(streak_, where(logical_and(is_finite, logical_not(is_due)), streak, 0));
}

std::optional<LossScale> parse_loss_scale(std::string_view text) {
  if (text == "none") return std::nullopt;
  if (text == "dynamic") return LossScale();
  double scale = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scale);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw_user_error("loss scale '{}': use none, dynamic or a number", text);
  }
  return LossScale({.initial = scale, .is_dynamic = false});
}

}  // namespace monograph::optim
