// Our side of bench/cpu/whole_step.py: a GPT training step that runs on command.
//   bench_cpu_whole_step LAYERS HEADS WIDTH BLOCK BATCH VOCABULARY LEARNING_RATE [OPTION=VALUE ...]
// OPTION is one of session::set_option (precision=bf16, disable_pass=chunk_loss_head), or
// moments=bf16.
// Weights are those of bench/golden/deterministic.py. Reads lines from standard input and answers
// each with one line of JSON. "batch t t t ..." runs a step on those tokens and targets: its loss,
// seconds and processor seconds. "report": where the time since the last report went, and the
// memory. "table": the same by kernel and product, as text for people.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/session/monograph.h"
#include "runtime/cpu/copy_bandwidth.h"
#include "train/report.h"

namespace monograph {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kMoments = "moments=";

uint32_t mix(uint32_t index, uint32_t stream) {
  uint32_t x = ((index + 1) * 0x9E3779B9u) ^ ((stream + 1) * 0x85EBCA6Bu);
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

ir::Literal weights(const std::string& name, const ir::Shape& shape, uint32_t number) {
  std::vector<float> values(shape.num_elements());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto u = static_cast<float>(mix(static_cast<uint32_t>(i), number) >> 8);
    const float centred = u * 0x1p-23f - 1.0f;
    const float scaled = centred * (shape.rank() >= 2        ? 0.035f
                                    : name.ends_with("bias") ? 0.02f
                                                             : 0.1f);
    values[i] = shape.rank() >= 2 || name.ends_with("bias") ? scaled : 1.0f + scaled;
  }
  return ir::Literal::from_f32(shape, values);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double cpu_seconds() {  // of all threads
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class WholeStep {
 public:
  explicit WholeStep(const std::vector<std::string>& sizes)
      : batch_(std::stoll(sizes[4])),
        block_(std::stoll(sizes[3])),
        model_({.vocab_size = std::stoll(sizes[5]),
                .block_size = block_,
                .n_layer = std::stoll(sizes[0]),
                .n_head = std::stoll(sizes[1]),
                .n_embd = std::stoll(sizes[2])}),
        optimizer_(model_.parameters(),
                   {.learning_rate = optim::Schedule::constant(std::stod(sizes[6])),
                    .beta1 = 0.9,
                    .beta2 = 0.95,
                    .weight_decay = 0.1,
                    .max_norm = 1.0,
                    .moment_dtype = moments_of(sizes)}),
        session_({.seed = 1}),
        step_(session_.compile(
            [this](const Tensor& x, const Tensor& y) {
              const Tensor loss = model_.loss(x, y);
              optimizer_.step(loss.backward());
              return loss;
            },
            options_of(sizes))) {
    uint32_t number = 0;
    for (const trace::Parameter& parameter : model_.parameters()) {
      session_.set_state(parameter.name(), weights(parameter.name(), parameter.shape(), number++));
    }
    const ir::TensorType ids{DType::kI64, {batch_, block_}};
    const auto start = Clock::now();
    executable_ = &step_.executable({ids, ids});
    compile_s_ = seconds_since(start);
    executable_->measure_steps(true);
    before_ = executable_->step_times();
  }

  std::string run(std::istream& words) {
    std::vector<int64_t> x(batch_ * block_), y(batch_ * block_);
    for (int64_t& each : x) words >> each;
    for (int64_t& each : y) words >> each;
    const ir::Shape shape{batch_, block_};
    const auto tokens = ir::Literal::from_i64(shape, x), targets = ir::Literal::from_i64(shape, y);
    const auto start = Clock::now();
    const double cpu_start = cpu_seconds();
    const double loss = step_(tokens, targets).loss();
    step_ns_.push_back(static_cast<int64_t>(1e9 * seconds_since(start)));
    if (step_ns_.size() == kNumUntimed) untimed_ = executable_->step_times();
    return fmt::format("{{\"loss\": {:.9g}, \"seconds\": {:.9g}, \"cpu_seconds\": {:.9g}}}", loss,
                       seconds_since(start), cpu_seconds() - cpu_start);
  }

  std::string report() {
    const std::vector<runtime::StepTime> times = executable_->step_times();
    const ir::Program& program = executable_->build()->compilation.program;
    double products = 0, attention = 0, all = 0;
    for (size_t i = 0; i < times.size(); ++i) {
      const bool was_there = i < before_.size();
      const double s =
          1e-9 * static_cast<double>(times[i].total_ns - (was_there ? before_[i].total_ns : 0));
      all += s;
      if (std::holds_alternative<ir::GemmStep>(program.steps[i].work)) products += s;
      if (std::holds_alternative<ir::AttentionStep>(program.steps[i].work)) attention += s;
    }
    const int64_t runs =
        times.empty() ? 0 : times[0].num_runs - (before_.empty() ? 0 : before_[0].num_runs);
    before_ = times;
    const double count = static_cast<double>(std::max<int64_t>(runs, 1));
    return fmt::format(
        "{{\"compile_s\": {:.4g}, \"from_cache\": {}, \"kernels\": {}, \"peak_bytes\": {}, "
        "\"bound_bytes\": {}, \"steps\": {}, \"products_s\": {:.6g}, \"attention_s\": {:.6g}, "
        "\"rest_s\": {:.6g}}}",
        compile_s_, executable_->build()->kernels.num_from_cache, program.kernels.size(),
        program.peak_bytes, program.bound_bytes, runs, products / count, attention / count,
        (all - products - attention) / count);
  }

  // Of the timed steps: the first ones touch pages that the system has still to find.
  std::string table() {
    std::vector<runtime::StepTime> times = executable_->step_times();
    for (size_t i = 0; i < untimed_.size(); ++i) {
      times[i].num_runs -= untimed_[i].num_runs;
      times[i].total_ns -= untimed_[i].total_ns;
    }
    const std::vector<int64_t> step_ns(step_ns_.begin() + kNumUntimed, step_ns_.end());
    const train::RunReport run = train::make_run_report(*executable_->build(), times, step_ns,
                                                        runtime::measure_copy_bandwidth());
    char* text = nullptr;
    size_t size = 0;
    std::FILE* const memory = open_memstream(&text, &size);
    train::print(memory, run);
    std::fclose(memory);
    const std::unique_ptr<char, decltype(&std::free)> owner(text, &std::free);
    return nlohmann::json{{"table", text}}.dump();
  }

 private:
  static ir::DType moments_of(const std::vector<std::string>& arguments) {
    for (size_t i = 7; i < arguments.size(); ++i) {
      if (arguments[i].starts_with(kMoments)) {
        return ir::parse_dtype(arguments[i].substr(kMoments.size()));
      }
    }
    return ir::DType::kF32;
  }

  static session::CompileOptions options_of(const std::vector<std::string>& arguments) {
    session::CompileOptions options;
    for (size_t i = 7; i < arguments.size(); ++i) {
      if (arguments[i].starts_with(kMoments)) continue;
      const size_t equals = arguments[i].find('=');
      session::set_option(options, arguments[i].substr(0, equals), arguments[i].substr(equals + 1));
    }
    return options;
  }

  int64_t batch_, block_;
  nn::GPT model_;
  optim::AdamW optimizer_;
  Session session_;
  session::Compiled step_;
  session::Executable* executable_ = nullptr;
  static constexpr size_t kNumUntimed = 2;  // as whole_step.py has it
  std::vector<runtime::StepTime> before_, untimed_;
  std::vector<int64_t> step_ns_;
  double compile_s_ = 0;
};

}  // namespace
}  // namespace monograph

int main(int argc, char** argv) {
  if (argc < 8) {
    fmt::print(stderr,
               "use: {} LAYERS HEADS WIDTH BLOCK BATCH VOCABULARY RATE [OPTION=VALUE ...]\n",
               argv[0]);
    return 2;
  }
  monograph::WholeStep step({argv + 1, argv + argc});
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "report") {
      fmt::print("{}\n", step.report());
    } else {
      fmt::print("{}\n", command == "table" ? step.table() : step.run(words));
    }
    std::fflush(stdout);
  }
  return 0;
}
