#include "cli/training_step.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "frontend/nn/optim/optimizer.h"
#include "frontend/nn/replicate.h"
#include "frontend/trace/accumulate.h"
#include "frontend/trace/collectives.h"

namespace monograph::cli {
namespace {

std::function<void(const trace::Gradients&)> optimizer_of(train::Model& model,
                                                          const StepShape& shape) {
  const auto parameters = model.module().parameters();
  const auto rate = optim::Schedule::constant(1e-3);
  if (model.is_image_model()) {
    if (shape.moments != "f32") {
      throw_user_error("--moments {} for model {}: it is trained by SGD, in f32; leave it out",
                       shape.moments, model.config().name);
    }
    optim::SGD sgd(parameters, {.learning_rate = rate, .momentum = 0.9, .weight_decay = 1e-4});
    return [sgd](const trace::Gradients& gradients) mutable { sgd.step(gradients); };
  }
  optim::AdamW adamw(parameters, {.learning_rate = rate,
                                  .epsilon = shape.epsilon,
                                  .max_norm = 1.0,
                                  .moment_dtype = ir::parse_dtype(shape.moments)});
  return [adamw](const trace::Gradients& gradients) mutable { adamw.step(gradients); };
}

}  // namespace

session::TracedFunction training_step(train::Model& model, const StepShape& shape) {
  return session::traced_function([&model, shape, update = optimizer_of(model, shape)](
                                      const trace::Tensor& inputs, const trace::Tensor& targets) {
    const auto [loss, gradients] =
        trace::accumulate(shape.num_micro_batches, {inputs, targets},
                          [&](const auto& slice) { return model.loss(slice[0], slice[1]); });
    const ir::Mesh mesh =
        shape.mesh.axes().empty() ? ir::Mesh({{"data", shape.num_ranks}}) : shape.mesh;
    trace::Gradients means = gradients;
    trace::Tensor mean_loss = loss;
    for (const std::string& axis : mesh.batch_axes()) {
      if (mesh.size(axis) == 1) continue;
      means = nn::replicate(means, mesh, {.axis = axis, .compression = shape.compression});
      mean_loss = trace::all_mean(mean_loss, mesh, axis);
    }
    update(means);
    return mean_loss;
  });
}

std::vector<ir::Literal> step_inputs(const train::Model& model) {
  std::vector<ir::Literal> inputs;
  const int64_t num_ids = model.is_image_model() ? model.config().classes : 251;
  for (const ir::TensorType& type : model.input_types()) {
    const int64_t salt = 7 + 4 * static_cast<int64_t>(inputs.size());
    inputs.push_back(ir::Literal::from(type, [&](int64_t i) {
      if (ir::is_floating(type.dtype))
        return static_cast<double>((salt * i + i * i) % 251) / 100 - 1;
      return static_cast<double>((salt * i + i * i) % num_ids);
    }));
  }
  return inputs;
}

void take_small_sizes(train::ModelConfig& config) {
  constexpr int64_t kBatch = 2, kBlock = 16, kImage = 32;
  const std::vector<std::string> names = train::language_model_names();
  const bool is_language = std::find(names.begin(), names.end(), config.name) != names.end();
  int64_t& size = is_language ? config.block : config.image;
  if (config.batch == train::ModelConfig::kPreset) config.batch = kBatch;
  if (size == train::ModelConfig::kPreset) size = is_language ? kBlock : kImage;
}

}  // namespace monograph::cli
