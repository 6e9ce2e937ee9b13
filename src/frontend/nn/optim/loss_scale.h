#pragma once

#include <optional>
#include <string_view>

#include "frontend/trace/state.h"
#include "frontend/trace/tensor.h"

namespace monograph::optim {

struct LossScaleConfig {
  double initial = 65536;  // powers of two lose no bit
  bool is_dynamic = true;  // false: it stays as it is
  double growth = 2;
  double backoff = 0.5;
  int64_t growth_interval = 2000;  // steps with finite gradients in a row before it grows
};

// The factor that keeps small gradients from vanishing in a narrow dtype: the loss is multiplied by
// it before backward, and the optimizer divides the gradients by it. A step whose gradients are not
// all finite changes neither parameters nor moments, and lowers a dynamic scale; this is decided in
// the graph, and the scale is a state ("optimizer.loss_scale"). The rule is that of
// torch.amp.GradScaler. A handle: copies are the same scale.
//
//   optim::LossScale scale;
//   optim::AdamW optimizer(model.parameters(), {.loss_scale = scale});
//   optimizer.step(scale(loss).backward());
class LossScale {
 public:
  explicit LossScale(LossScaleConfig config = {});  // UserError for what makes no sense

  const LossScaleConfig& config() const { return config_; }
  trace::Tensor operator()(const trace::Tensor& loss) const;  // multiplied
  trace::Tensor value(trace::Trace& trace) const;             // f32[]
  // Sets the next scale. `is_finite`: bool[], of all gradients of the step.
  void update(trace::Trace& trace, const trace::Tensor& is_finite) const;

 private:
  LossScaleConfig config_;
  trace::State scale_, streak_;
};

// "none", "dynamic" (from 65536) or a number, which stays; UserError names them.
std::optional<LossScale> parse_loss_scale(std::string_view text);

}  // namespace monograph::optim
