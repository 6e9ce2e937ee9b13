#include "frontend/nn/optim/optimizer.h"

#include "base/error.h"
#include "frontend/trace/functions.h"

namespace monograph::optim {
namespace {

using trace::State;
using trace::Tensor;

std::vector<State> moments(const std::vector<trace::Parameter>& parameters, const char* kind,
                           ir::DType dtype = ir::DType::kF32) {
  std::vector<State> states;
  for (const trace::Parameter& parameter : parameters) {
    states.push_back(State::moment_of(parameter, fmt::format("optimizer.{}.", kind), dtype));
  }
  return states;
}

// Of `states`, which stand beside `all`, those that stand beside `some`.
std::vector<State> select(const std::vector<State>& states,
                          const std::vector<trace::Parameter>& all,
                          const std::vector<trace::Parameter>& some) {
  std::vector<State> selected;
  for (const trace::Parameter& wanted : some) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].is_same(wanted)) selected.push_back(states[i]);
    }
  }
  return selected;
}

// What both optimizers begin with, for each flat range.
struct FlatStep {
  Tensor parameters, gradients;  // flat; gradients clipped
  Tensor decay;                  // flat: weight decay of each element; empty for none
};

struct Begun {
  std::vector<FlatStep> ranges;
  Metrics metrics;
};

// The norm of all ranges together limits each.
void clip(std::vector<FlatStep>& steps, double max_norm, Metrics& metrics) {
  Tensor squares;
  for (const FlatStep& step : steps) {
    const Tensor own = sum(step.gradients * step.gradients);
    squares = squares ? squares + own : own;
  }
  metrics.gradient_norm = sqrt(squares);
  const Tensor factor = minimum(max_norm / (metrics.gradient_norm + 1e-6), 1.0);
  for (FlatStep& step : steps) step.gradients = step.gradients * factor;
}

// Divides by the scale. Zero times what is not finite is NaN, which a sum over all ranges keeps.
void unscale(std::vector<FlatStep>& steps, const LossScale& scale, trace::Trace& trace,
             Metrics& metrics) {
  const Tensor factor = reciprocal(scale.value(trace));
  Tensor zero;
  for (FlatStep& step : steps) {
    step.gradients = step.gradients * factor;
    const Tensor own = sum(step.gradients * 0.0);
    zero = zero ? zero + own : own;
  }
  metrics.is_finite = eq(zero, 0.0);
  scale.update(trace, metrics.is_finite);
}

Begun begin(const std::vector<FlatRange>& ranges, const Schedule& schedule, double max_norm,
            double weight_decay, trace::Trace& trace,
            const std::optional<LossScale>& loss_scale = {}) {
  Begun begun;
  for (const FlatRange& range : ranges) begun.ranges.push_back({{}, range.pack_gradients(), {}});
  if (loss_scale) unscale(begun.ranges, *loss_scale, trace, begun.metrics);
  if (max_norm > 0) clip(begun.ranges, max_norm, begun.metrics);
  const Tensor done = trace.step().to(ir::DType::kF64);
  begun.metrics.learning_rate = schedule.rate(done).to(ir::DType::kF32);
  for (size_t i = 0; i < ranges.size(); ++i) {
    FlatStep& step = begun.ranges[i];
    step.parameters = ranges[i].pack_states(ranges[i].parameters());
    if (weight_decay > 0 && ranges[i].num_decay_elements() == ranges[i].num_elements()) {
      step.decay = trace.full({ir::DType::kF32, {}}, weight_decay);
    } else if (weight_decay > 0 && ranges[i].num_decay_elements() > 0) {
      const Tensor position = trace.iota({ir::DType::kI64, {ranges[i].num_elements()}}, 0);
      step.decay = where(lt(position, ranges[i].num_decay_elements()),
                         trace.full({ir::DType::kF32, {}}, weight_decay), 0.0);
    }
  }
  return begun;
}

}  // namespace

AdamW::AdamW(std::vector<trace::Parameter> parameters, AdamWConfig config)
    : parameters_(std::move(parameters)),
      config_(config),
      first_(moments(parameters_, "m", config_.moment_dtype)),
      second_(moments(parameters_, "v", config_.moment_dtype)),
      updates_("optimizer.updates", {ir::DType::kI64, {}}, ir::StateRole::kBuffer,
               trace::Initializer::constant(0)) {
  const AdamWConfig& c = config;
  c.learning_rate.check();
  if (!(c.beta1 >= 0 && c.beta1 < 1 && c.beta2 >= 0 && c.beta2 < 1 && c.epsilon > 0 &&
        c.weight_decay >= 0 && c.max_norm >= 0)) {
    throw_user_error(
        "AdamW with betas ({}, {}), epsilon {}, weight_decay {}, max_norm {}: betas "
        "lie in [0, 1), epsilon above 0, the others from 0",
        c.beta1, c.beta2, c.epsilon, c.weight_decay, c.max_norm);
  }
  if (c.moment_dtype != ir::DType::kF32 && c.moment_dtype != ir::DType::kBF16) {
    throw_user_error("AdamW with moments in {}: use f32 or bf16", ir::dtype_name(c.moment_dtype));
  }
}

// Of updates, this one included; f64[].
Tensor AdamW::count(trace::Trace& trace, const Tensor& is_finite) const {
  if (!config_.loss_scale) return trace.step().to(ir::DType::kF64) + 1.0;
  const Tensor done = trace.read(updates_);
  trace.update(updates_, where(is_finite, done + 1, done));
  return done.to(ir::DType::kF64) + 1.0;
}

Metrics AdamW::step(const trace::Gradients& gradients, trace::Location where) {
  trace::Trace& trace = gradients.trace();
  const trace::Pin pin(trace, where);
  const trace::Scope scope(trace, "optimizer");
  const trace::PhaseScope phase(trace, ir::Phase::kOptimizer);
  const std::vector<FlatRange> ranges = FlatRange::all(parameters_, gradients);
  const Begun begun = begin(ranges, config_.learning_rate, config_.max_norm, config_.weight_decay,
                            trace, config_.loss_scale);
  const Tensor& is_finite = begun.metrics.is_finite;
  const Tensor count = this->count(trace, is_finite);
  // Bias corrections in float64: 1 - beta^t cancels.
  const auto correction = [&](double beta) {
    const Tensor base = trace.full({ir::DType::kF64, {}}, beta);
    return 1.0 - pow(base, count);
  };
  const Tensor first_correction = correction(config_.beta1).to(ir::DType::kF32);
  const Tensor second_root = sqrt(correction(config_.beta2)).to(ir::DType::kF32);
  const Tensor& rate = begun.metrics.learning_rate;
  // A step that is skipped keeps every bit.
  const auto unless_skipped = [&](const Tensor& updated, const Tensor& before) {
    return config_.loss_scale ? trace::where(is_finite, updated, before) : updated;
  };
  for (size_t i = 0; i < ranges.size(); ++i) {
    const FlatRange& range = ranges[i];
    const FlatStep& s = begun.ranges[i];
    const Tensor& g = s.gradients;
    const std::vector<State> first = select(first_, parameters_, range.parameters());
    const std::vector<State> second = select(second_, parameters_, range.parameters());
    const Tensor m_before = range.pack_states(first), v_before = range.pack_states(second);
    const Tensor m = config_.beta1 * m_before.to(ir::DType::kF32) + (1 - config_.beta1) * g;
    const Tensor v = config_.beta2 * v_before.to(ir::DType::kF32) + (1 - config_.beta2) * (g * g);
    const Tensor decayed = s.decay ? s.parameters * (1.0 - rate * s.decay) : s.parameters;
    const Tensor denominator = sqrt(v) / second_root + config_.epsilon;
    const Tensor next = decayed - (rate / first_correction) * (m / denominator);
    range.update(range.parameters(), unless_skipped(next, s.parameters));
    range.update(first, unless_skipped(m.to(config_.moment_dtype), m_before));
    range.update(second, unless_skipped(v.to(config_.moment_dtype), v_before));
  }
  return begun.metrics;
}

SGD::SGD(std::vector<trace::Parameter> parameters, SGDConfig config)
    : parameters_(std::move(parameters)), config_(config), velocity_(moments(parameters_, "m")) {
  config.learning_rate.check();
  if (!(config.momentum >= 0 && config.weight_decay >= 0 && config.max_norm >= 0)) {
    throw_user_error("SGD with momentum {}, weight_decay {}, max_norm {}: none may be negative",
                     config.momentum, config.weight_decay, config.max_norm);
  }
}

Metrics SGD::step(const trace::Gradients& gradients, trace::Location where) {
  trace::Trace& trace = gradients.trace();
  const trace::Pin pin(trace, where);
  const trace::Scope scope(trace, "optimizer");
  const trace::PhaseScope phase(trace, ir::Phase::kOptimizer);
  const std::vector<FlatRange> ranges = FlatRange::all(parameters_, gradients);
  const Begun begun =
      begin(ranges, config_.learning_rate, config_.max_norm, config_.weight_decay, trace);
  for (size_t i = 0; i < ranges.size(); ++i) {
    const FlatRange& range = ranges[i];
    const FlatStep& s = begun.ranges[i];
    Tensor direction = s.decay ? s.gradients + s.decay * s.parameters : s.gradients;
    if (config_.momentum > 0) {
      const std::vector<State> velocity = select(velocity_, parameters_, range.parameters());
      direction = config_.momentum * range.pack_states(velocity) + direction;
      range.update(velocity, direction);
    }
    range.update(range.parameters(), s.parameters - begun.metrics.learning_rate * direction);
  }
  return begun.metrics;
}

}  // namespace monograph::optim
