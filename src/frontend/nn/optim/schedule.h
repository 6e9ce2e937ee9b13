#pragma once

#include <string>
#include <string_view>

#include "frontend/trace/tensor.h"

namespace monograph::optim {

// The learning rate as a function of the step, computed in the graph. Rises linearly over
// `warmup_steps`, from peak / warmup_steps at the first step; then constant, or down to `final` at
// step `total_steps`, and stays there.
struct Schedule {
  enum class Shape { kConstant, kLinear, kCosine };
  Shape shape = Shape::kConstant;
  double peak = 1e-3;
  double final = 0;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;

  static Schedule constant(double rate, int64_t warmup_steps = 0) {
    return {Shape::kConstant, rate, rate, warmup_steps, 0};
  }
  static Schedule linear(double peak, double final, int64_t warmup_steps, int64_t total_steps) {
    return {Shape::kLinear, peak, final, warmup_steps, total_steps};
  }
  static Schedule cosine(double peak, double final, int64_t warmup_steps, int64_t total_steps) {
    return {Shape::kCosine, peak, final, warmup_steps, total_steps};
  }

  // step: f64[], from 0. f64[].
  trace::Tensor rate(const trace::Tensor& step) const;
  // The same on the host. UserError when the schedule makes no sense.
  double rate(int64_t step) const;
  void check() const;
};

// "constant", "linear" or "cosine"; UserError names them.
Schedule::Shape parse_schedule(std::string_view name);

}  // namespace monograph::optim
