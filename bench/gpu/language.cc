// Trains a language model on random tokens on a GPU and prints one JSON line, then, with --table,
// where the time of a step goes: AdamW with clipping, like the PyTorch scripts it is compared with.
// Usage: bench_gpu_language [--model gpt2-124m|llama-1b|...] [--batch N] [--length T] [--layers L]
//                           [--vocabulary V] [--precision f32|bf16] [--seconds S]
//                           [--mode default|reduce-overhead|max-autotune] [--table]
//                           [--timeline FILE] [--device cpu|cuda] [--options NAME=VALUE,...]
// --options: of compilation, as residual=bf16,deterministic=false,memory_budget=48GB.
// $PB_T0, if set, is when the process was started, in seconds since 1970.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>

#include "base/error.h"
#include "frontend/session/cuda_backend.h"
#include "frontend/session/executable.h"
#include "frontend/session/monograph.h"
#include "train/models.h"
#include "train/report.h"

namespace monograph {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double seconds_since_process_start() {
  const char* const start = std::getenv("PB_T0");
  if (start == nullptr) return 0;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return now.count() - std::stod(start);
}

struct Config {
  int64_t batch = 64, length = 1024, layers = train::ModelConfig::kPreset, vocabulary = 50304;
  double seconds = 3;
  std::string model = "gpt2-124m", precision = "bf16", mode = "reduce-overhead", device = "cuda",
              timeline, options;
  bool has_table = false;
};

Config parse(int argc, char** argv) {
  Config config;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--table") {
      config.has_table = true;
      continue;
    }
    if (i + 1 == argc) throw_user_error("option {} needs a value", option);
    const std::string value = argv[++i];
    if (option == "--batch") {
      config.batch = std::stoll(value);
    } else if (option == "--length") {
      config.length = std::stoll(value);
    } else if (option == "--model") {
      config.model = value;
    } else if (option == "--vocabulary") {
      config.vocabulary = std::stoll(value);
    } else if (option == "--layers") {
      config.layers = std::stoll(value);
    } else if (option == "--seconds") {
      config.seconds = std::stod(value);
    } else if (option == "--precision") {
      config.precision = value;
    } else if (option == "--mode") {
      config.mode = value;
    } else if (option == "--device") {
      config.device = value;
    } else if (option == "--timeline") {
      config.timeline = value;
    } else if (option == "--options") {
      config.options = value;
    } else {
      throw_user_error("unknown option {}: see the top of the source", option);
    }
  }
  return config;
}

std::vector<std::vector<Literal>> random_batches(const Config& config) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int64_t> token(0, std::min<int64_t>(config.vocabulary, 50257) - 1);
  std::vector<std::vector<Literal>> batches;
  for (int b = 0; b < 8; ++b) {
    std::vector<int64_t> x, y;
    for (int64_t row = 0; row < config.batch; ++row) {
      int64_t next = token(random);
      for (int64_t t = 0; t < config.length; ++t) {
        x.push_back(next);
        y.push_back(next = token(random));
      }
    }
    const ir::Shape shape{config.batch, config.length};
    batches.push_back({Literal::from_i64(shape, std::move(x)), Literal::from_i64(shape, y)});
  }
  return batches;
}

// The host prepares a step while the one before runs.
class Pipeline {
 public:
  explicit Pipeline(session::Compiled& step) : step_(step) {}
  void give(const std::vector<Literal>& batch) {
    std::function<session::Results()> next = step_.start(batch);
    if (last_) last_();
    last_ = std::move(next);
  }
  double loss_of_last() { return std::exchange(last_, nullptr)().loss(); }

 private:
  session::Compiled& step_;
  std::function<session::Results()> last_;
};

void print_timeline(session::Compiled& step, const std::vector<std::vector<Literal>>& batches,
                    const std::string& path) {
  constexpr int kSteps = 5;
  const auto end = session::start_gpu_timeline();
  Pipeline pipeline(step);
  for (int i = 0; i < kSteps; ++i) pipeline.give(batches[i]);
  pipeline.loss_of_last();
  fmt::print("{}", end(path));
}

void print_table(session::Compiled& step, session::Executable& executable,
                 const std::vector<std::vector<Literal>>& batches) {
  executable.measure_steps(true);
  std::vector<int64_t> step_ns;
  for (int i = 0; i < 5; ++i) {
    const auto before = Clock::now();
    step(batches[i]);
    step_ns.push_back(static_cast<int64_t>(seconds_since(before) * 1e9));
  }
  train::print(stdout, train::make_run_report(*executable.build(), executable.step_times(), step_ns,
                                              executable.copy_bandwidth()));
}

void run(const Config& config) {
  const auto start = Clock::now();
  const auto model = train::make_language_model({.name = config.model,
                                                 .vocab = config.vocabulary,
                                                 .num_layers = config.layers,
                                                 .block = config.length,
                                                 .batch = config.batch});
  optim::AdamW optimizer(model->module().parameters(),
                         {.learning_rate = optim::Schedule::constant(3e-4),
                          .beta2 = 0.95,
                          .weight_decay = 0.1,
                          .max_norm = 1.0});
  session::CompileOptions options = {
      .backend = config.device, .mode = config.mode, .precision = config.precision};
  session::set_options(options, config.options);
  auto step = compile(
      [&](const Tensor& tokens, const Tensor& targets) {
        const Tensor loss = model->loss(tokens, targets);
        optimizer.step(loss.backward());
        return loss;
      },
      options);
  const std::vector<std::vector<Literal>> batches = random_batches(config);
  const double prepare_s = seconds_since(start);
  session::Executable& executable = step.executable({batches[0][0].type(), batches[0][1].type()});
  const double compile_s = seconds_since(start) - prepare_s;
  const double first_loss = step(batches[0]).loss();
  const double first_step_s = seconds_since(start) - prepare_s;
  const double process_s = seconds_since_process_start();
  for (int i = 1; i < 8; ++i) step(batches[i]);
  int64_t num_steps = 0;
  Pipeline pipeline(step);
  const auto window = Clock::now();
  while (seconds_since(window) < config.seconds) pipeline.give(batches[num_steps++ % 8]);
  const double loss = pipeline.loss_of_last();
  const double ms = seconds_since(window) * 1e3 / static_cast<double>(num_steps);
  fmt::print(
      "RESULT "
      "{{\"fw\":\"monograph\",\"model\":\"{}\",\"mode\":\"{}\",\"options\":\"{}\",\"B\":{},\"T\":{}"
      ",\"L\":{},"
      "\"precision\":\"{}\","
      "\"tok_s\":{:.0f},\"ms\":{:.3f},\"n_steps\":{},\"compile_s\":{:.3f},\"first_step_s\":{:.3f},"
      "\"process_s\":{:.3f},"
      "\"peak_gb\":{:.3f},\"plan_gb\":{:.3f},\"loss0\":{:.5f},\"lossN\":{:.5f}}}\n",
      config.model, config.mode, config.options, config.batch, config.length,
      model->config().num_layers, config.precision,
      static_cast<double>(config.batch * config.length) / ms * 1e3, ms, num_steps, compile_s,
      first_step_s, process_s, static_cast<double>(executable.gpu_bytes_in_use()) / 1e9,
      static_cast<double>(executable.build()->compilation.program.peak_bytes) / 1e9, first_loss,
      loss);
  std::fflush(stdout);
  if (!config.timeline.empty()) print_timeline(step, batches, config.timeline);
  if (config.has_table) print_table(step, executable, batches);
}

}  // namespace
}  // namespace monograph

int main(int argc, char** argv) try {
  monograph::run(monograph::parse(argc, argv));
} catch (const monograph::UserError& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 2;
}
