// Trains ResNet-50 on random images on a GPU and prints one JSON line; batch, optimizer and
// precision as PyTorch's script: bf16 with float32 weights, SGD with momentum. Images come from the
// host as bytes, in each step.
// Usage: bench_gpu_resnet [--batch N] [--seconds S] [--mode MODE] [--precision f32|bf16]
//                         [--timeline FILE] [--table 1] [--options NAME=VALUE,...]
// --options: of compilation, as residual=bf16.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "base/error.h"
#include "frontend/session/cuda_backend.h"
#include "frontend/session/executable.h"
#include "frontend/session/monograph.h"
#include "train/report.h"

namespace monograph {
namespace {

using Clock = std::chrono::steady_clock;
using Options = std::map<std::string, std::string>;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Options parse(int argc, char** argv) {
  Options options = {{"--batch", "256"},      {"--seconds", "3"}, {"--mode", "reduce-overhead"},
                     {"--precision", "bf16"}, {"--timeline", ""}, {"--table", "0"},
                     {"--options", ""}};
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) throw_user_error("option {} needs a value", argv[i]);
    if (!options.contains(argv[i])) throw_user_error("unknown option {}: see the source", argv[i]);
    options[argv[i]] = argv[i + 1];
  }
  return options;
}

std::vector<std::vector<Literal>> random_batches(int64_t batch) {
  constexpr int64_t kSize = 224, kChannels = 3, kClasses = 1000;
  std::mt19937 random(1);
  std::vector<std::vector<Literal>> batches;
  for (int b = 0; b < 2; ++b) {
    Literal images({DType::kU8, {batch, kSize, kSize, kChannels}});
    for (uint8_t& byte : images.as<uint8_t>()) byte = static_cast<uint8_t>(random() >> 8);
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < batch; ++i) labels.push_back(random() % kClasses);
    batches.push_back({images, Literal::from_i64({batch}, labels)});
  }
  return batches;
}

void print_table(session::Compiled& step, session::Executable& executable,
                 const std::vector<Literal>& batch) {
  executable.measure_steps(true);
  std::vector<int64_t> step_ns;
  for (int i = 0; i < 3; ++i) {
    const auto before = Clock::now();
    step(batch);
    step_ns.push_back(static_cast<int64_t>(seconds_since(before) * 1e9));
  }
  train::print(stdout, train::make_run_report(*executable.build(), executable.step_times(), step_ns,
                                              executable.copy_bandwidth()));
}

void run(const Options& options) {
  const nn::ResNet model(nn::ResNetConfig::resnet50());
  optim::SGD optimizer(
      model.parameters(),
      {.learning_rate = optim::Schedule::constant(0.01), .momentum = 0.9, .weight_decay = 1e-4});
  session::CompileOptions settings = {
      .backend = "cuda", .mode = options.at("--mode"), .precision = options.at("--precision")};
  session::set_options(settings, options.at("--options"));
  auto step = compile(
      [&](const Tensor& images, const Tensor& labels) {
        const Tensor loss = model.loss(images.to(DType::kF32) / 64.0 - 2.0, labels);
        optimizer.step(loss.backward());
        return loss;
      },
      settings);
  const auto batches = random_batches(std::stoll(options.at("--batch")));
  const auto start = Clock::now();
  session::Executable& executable = step.executable({batches[0][0].type(), batches[0][1].type()});
  const double first_loss = step(batches[0]).loss();
  const double first_step_s = seconds_since(start);
  for (int i = 1; i < 6; ++i) step(batches[i % 2]);
  int64_t num_steps = 0;
  std::function<session::Results()> last;
  const auto window = Clock::now();
  while (seconds_since(window) < std::stod(options.at("--seconds"))) {
    auto next = step.start(batches[num_steps++ % 2]);
    if (last) last();
    last = std::move(next);
  }
  const double loss = last().loss();
  const double ms = seconds_since(window) * 1e3 / static_cast<double>(num_steps);
  fmt::print(
      "RESULT "
      "{{\"fw\":\"monograph\",\"what\":\"resnet50\",\"mode\":\"{}\",\"options\":\"{}\",\"B\":{},"
      "\"img_s\":{:.0f},\"ms\":{:.3f},\"n_steps\":{},\"first_step_s\":{:.2f},\"gb_in_use\":{:.2f},"
      "\"loss0\":{:.5f},\"lossN\":{:.5f}}}\n",
      options.at("--mode"), options.at("--options"), batches[0][1].num_elements(),
      static_cast<double>(batches[0][1].num_elements()) / ms * 1e3, ms, num_steps, first_step_s,
      static_cast<double>(executable.gpu_bytes_in_use()) / 1e9, first_loss, loss);
  std::fflush(stdout);
  if (const std::string& path = options.at("--timeline"); !path.empty()) {
    const auto end = session::start_gpu_timeline();
    for (int i = 0; i < 3; ++i) step(batches[i % 2]);
    fmt::print("{}", end(path));
  }
  if (options.at("--table") != "0") print_table(step, executable, batches[0]);
}

}  // namespace
}  // namespace monograph

int main(int argc, char** argv) try {
  monograph::run(monograph::parse(argc, argv));
} catch (const monograph::UserError& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 2;
}
