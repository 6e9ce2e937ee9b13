// The null device compiles the CUDA code of all presets, without a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "frontend/nn/optim/optimizer.h"
#include "train/models.h"
#include "train/report.h"

namespace monograph::train {
namespace {

std::vector<GpuKernelRow> compiled(const ModelConfig& config, const std::string& precision) {
  session::Session session(
      {.options = {.backend = "null", .target = "h200", .precision = precision}});
  const auto model = make_model(config);
  optim::AdamW optimizer(model->module().parameters(),
                         {.learning_rate = optim::Schedule::constant(1e-3), .max_norm = 1.0});
  auto step = session.compile([&](const trace::Tensor& tokens, const trace::Tensor& targets) {
    const trace::Tensor loss = model->loss(tokens, targets);
    optimizer.step(loss.backward());
    return loss;
  });
  const session::Build* build = step.executable(model->input_types()).build();
  return make_gpu_rows(*build, ir::DeviceSpec::h200().copy_bandwidth);
}

TEST(PresetsForGpu, CompileThroughNvrtc) {
  if (!codegen::cuda::Nvrtc::is_available()) {
    GTEST_SKIP() << "no NVRTC on this machine: nothing was compiled";
  }
  for (const std::string& name : language_model_names()) {
    for (const std::string precision : {"f32", "bf16"}) {
      // All layers have the same kernels.
      ModelConfig config{.name = name, .num_layers = 2, .dropout = 0.1};
      if (!name.starts_with("gpt")) config.dropout = ModelConfig::kPreset;
      if (name == "mlp") config = {.name = name};
      const std::vector<GpuKernelRow> rows = compiled(config, precision);
      EXPECT_FALSE(rows.empty()) << name;
      for (const GpuKernelRow& row : rows) {
        EXPECT_GT(row.registers, 0) << name << " " << row.name;
        EXPECT_EQ(row.spilled_bytes, 0) << name << " " << precision << " " << row.name;
      }
    }
  }
}

}  // namespace
}  // namespace monograph::train
