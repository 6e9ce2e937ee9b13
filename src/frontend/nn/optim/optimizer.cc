#include "frontend/nn/optim/optimizer.h"

#include <limits>

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
    states.emplace_back(fmt::format("optimizer.{}.{}", kind, parameter.name()),
                        ir::TensorType{dtype, parameter.shape()}, ir::StateRole::kMoment,
                        trace::Initializer::constant(0));
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

// What both optimizers begin and end with.
struct FlatStep {
  Tensor parameters, gradients;  // flat; gradients clipped
  Tensor decay;                  // flat: weight decay of each element; empty for none
  Metrics metrics;
};

FlatStep begin(const FlatRange& range, const Schedule& schedule, double max_norm,
               double weight_decay, trace::Trace& trace,
               const std::optional<LossScale>& loss_scale = {}) {
  FlatStep step;
  step.gradients = range.pack_gradients();
  if (loss_scale) {
    step.gradients = step.gradients * reciprocal(loss_scale->value(trace));
    // False for NaN too.
    step.metrics.is_finite = lt(amax(abs(step.gradients)), std::numeric_limits<double>::infinity());
    loss_scale->update(trace, step.metrics.is_finite);
  }
  if (max_norm > 0) {
    step.metrics.gradient_norm = sqrt(sum(step.gradients * step.gradients));
    step.gradients = step.gradients * minimum(max_norm / (step.metrics.gradient_norm + 1e-6), 1.0);
  }
  step.parameters = range.pack_states(range.parameters());
  const Tensor done = trace.step().to(ir::DType::kF64);
  step.metrics.learning_rate = schedule.rate(done).to(ir::DType::kF32);
  if (weight_decay > 0 && range.num_decay_elements() > 0) {
    const Tensor position = trace.iota({ir::DType::kI64, {range.num_elements()}}, 0);
    step.decay = where(lt(position, range.num_decay_elements()),
                       trace.full({ir::DType::kF32, {}}, weight_decay), 0.0);
  }
  return step;
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
  const FlatRange range(parameters_, gradients);
  const std::vector<State> first = select(first_, parameters_, range.parameters());
  const std::vector<State> second = select(second_, parameters_, range.parameters());

  const FlatStep s = begin(range, config_.learning_rate, config_.max_norm, config_.weight_decay,
                           trace, config_.loss_scale);
  const Tensor& g = s.gradients;
  const Tensor m_before = range.pack_states(first), v_before = range.pack_states(second);
  const Tensor m = config_.beta1 * m_before.to(ir::DType::kF32) + (1 - config_.beta1) * g;
  const Tensor v = config_.beta2 * v_before.to(ir::DType::kF32) + (1 - config_.beta2) * (g * g);
  const Tensor count = this->count(trace, s.metrics.is_finite);
  // Bias corrections in float64: 1 - beta^t cancels.
  const auto correction = [&](double beta) {
    const Tensor base = trace.full({ir::DType::kF64, {}}, beta);
    return 1.0 - pow(base, count);
  };
  const Tensor first_correction = correction(config_.beta1).to(ir::DType::kF32);
  const Tensor second_root = sqrt(correction(config_.beta2)).to(ir::DType::kF32);
  const Tensor& rate = s.metrics.learning_rate;
  const Tensor decayed = s.decay ? s.parameters * (1.0 - rate * s.decay) : s.parameters;
  const Tensor denominator = sqrt(v) / second_root + config_.epsilon;
  const Tensor next = decayed - (rate / first_correction) * (m / denominator);
  // A step that is skipped keeps every bit.
  const auto unless_skipped = [&](const Tensor& updated, const Tensor& before) {
    return config_.loss_scale ? trace::where(s.metrics.is_finite, updated, before) : updated;
  };
  range.update(range.parameters(), unless_skipped(next, s.parameters));
  range.update(first, unless_skipped(m.to(config_.moment_dtype), m_before));
  range.update(second, unless_skipped(v.to(config_.moment_dtype), v_before));
  return s.metrics;
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
  const FlatRange range(parameters_, gradients);
  const FlatStep s =
      begin(range, config_.learning_rate, config_.max_norm, config_.weight_decay, trace);
  Tensor direction = s.decay ? s.gradients + s.decay * s.parameters : s.gradients;
  if (config_.momentum > 0) {
    const std::vector<State> velocity = select(velocity_, parameters_, range.parameters());
    direction = config_.momentum * range.pack_states(velocity) + direction;
    range.update(velocity, direction);
  }
  range.update(range.parameters(), s.parameters - s.metrics.learning_rate * direction);
  return s.metrics;
}

}  // namespace monograph::optim
