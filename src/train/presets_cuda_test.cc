// The null device compiles the CUDA code of all presets, without a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "frontend/nn/optim/optimizer.h"
#include "train/models.h"
#include "train/report.h"

namespace monograph::train {
namespace {

constexpr double kBigBytes = 1e6;  // a kernel that moves less may be as slow as it likes

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

constexpr int64_t kFewRegisters = 64 * 4;  // a thread's, spilled to the first-level cache

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
        // Known: sums of gradients over rows of 2048 (llama-1b) hold more than the registers do.
        if (static_cast<double>(row.bytes_moved) < kBigBytes || name.starts_with("llama-1b"))
          continue;
        EXPECT_LE(row.spilled_bytes, kFewRegisters) << name << " " << precision << " " << row.name;
      }
    }
  }
}

}  // namespace
}  // namespace monograph::train
