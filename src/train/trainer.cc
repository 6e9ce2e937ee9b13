#include "train/trainer.h"

#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "runtime/cpu/copy_bandwidth.h"
#include "train/progress.h"

namespace monograph::train {
namespace {

using Clock = std::chrono::steady_clock;
using session::Compiled;
using trace::Tensor;

constexpr uint32_t kSampleStream = 0x73616d70;  // "samp"
constexpr double kTemperature = 0.8;

int64_t ns_since(Clock::time_point start) {
  return std::chrono::nanoseconds(Clock::now() - start).count();
}

void check_config(const TrainConfig& config) {
  if (config.num_steps < 1) throw_user_error("--steps {}: use 1 or more", config.num_steps);
  if (config.num_eval_batches < 1) {
    throw_user_error("--eval-batches {}: use 1 or more", config.num_eval_batches);
  }
  if (config.sample_bytes < 0 || config.eval_every < 0) {
    throw_user_error("--sample {} --eval-every {}: use 0 (never) or more", config.sample_bytes,
                     config.eval_every);
  }
  if (config.data_path.empty()) throw_user_error("no data: give --data FILE, a file of plain text");
}

class Trainer {
 public:
  Trainer(const TrainConfig& config, EventLog& events, std::FILE* out,
          const std::atomic<bool>& interrupted)
      : config_(config),
        events_(events),
        out_(out),
        interrupted_(interrupted),
        model_(make_model(config.model)),
        data_(config.data_path, model_->config().block),
        optimizer_(model_->module().parameters(), optimizer_config()),
        session_({.seed = config.seed, .options = config.options, .events = &events}),
        tensorboard_(config.tensorboard_folder.empty()
                         ? TensorBoardWriter()
                         : TensorBoardWriter(config.tensorboard_folder)),
        step_(
            session_.compile([this](const Tensor& x, const Tensor& y) { return trace_step(x, y); },
                             options("train_step", {"tokens", "targets"}))),
        loss_(session_.compile(
            [this](const Tensor& x, const Tensor& y) { return model_->loss(x, y); },
            options("validation", {"tokens", "targets"}))),
        logits_(session_.compile([this](const Tensor& x) { return model_->next_logits(x); },
                                 options("next_logits", {"tokens"}))) {}

  TrainResult run() {
    compile();
    loop();
    finish();
    return std::move(result_);
  }

 private:
  session::CompileOptions options(const std::string& name,
                                  std::vector<std::string> input_names) const {
    session::CompileOptions options = config_.options;
    options.name = name;
    options.input_names = std::move(input_names);
    if (name != "train_step")
      options.dump_dir.clear();  // one function's dumps would hide another's
    return options;
  }

  optim::AdamWConfig optimizer_config() const {
    const int64_t warmup = std::min(config_.warmup_steps, config_.num_steps / 2);
    return {.learning_rate = optim::Schedule::cosine(
                config_.learning_rate, config_.final_learning_rate, warmup, config_.num_steps),
            .beta1 = 0.9,
            .beta2 = 0.95,
            .epsilon = 1e-8,
            .weight_decay = config_.weight_decay,
            .max_norm = config_.max_norm};
  }

  trace::Outputs trace_step(const Tensor& tokens, const Tensor& targets) {
    const Tensor loss = model_->loss(tokens, targets);
    const optim::Metrics metrics = optimizer_.step(loss.backward());
    trace::Outputs outputs = {{"loss", loss}, {"learning_rate", metrics.learning_rate}};
    if (config_.max_norm > 0) outputs.emplace_back("gradient_norm", metrics.gradient_norm);
    return outputs;
  }

  void compile() {
    if (!config_.is_quiet) {
      fmt::print(out_, "{:<9} {} on {} bytes ({} for validation), {} parameters\n", "model",
                 model_->config().name, grouped(data_.num_training_bytes()),
                 grouped(data_.num_validation_bytes()), grouped(model_->module().num_parameters()));
    }
    executable_ = &step_.executable(model_->input_types());
    const session::Build* build = executable_->build();
    result_.build = make_build_report(step_.trace_record(model_->input_types()), build);
    if (!config_.is_quiet) print(out_, result_.build);
    if (build == nullptr) return;
    for (const std::string& warning : build->kernels.warnings) {
      fmt::print(stderr, "warning: {}\n", warning);
    }
    executable_->measure_steps(true);
  }

  void loop() {
    Progress progress(out_, config_.num_steps, config_.is_quiet);
    const ModelConfig& model = model_->config();
    const auto targets = model_->input_types()[1].num_elements();
    for (int64_t step = 0; step < config_.num_steps && !interrupted_; ++step) {
      const Batch batch = model_->fit(data_.training_batch(config_.seed, step, model.batch));
      const auto start = Clock::now();
      const session::Results results = step_(batch.tokens, batch.targets);
      const int64_t ns = ns_since(start);
      step_ns_.push_back(ns);
      result_.num_steps = step + 1;
      result_.training_loss = results.loss();
      if (!std::isfinite(results.loss())) {
        progress.pause();
        throw_user_error("the loss is {} at step {}: try a lower --lr or a longer --warmup",
                         results.loss(), step + 1);
      }
      const double tokens_per_s = static_cast<double>(targets) / static_cast<double>(ns) * 1e9;
      record(step + 1, results, tokens_per_s, ns);
      progress.step(step + 1, results.loss(), tokens_per_s);
      const bool is_last = step + 1 == config_.num_steps;
      if (config_.eval_every > 0 && (step + 1) % config_.eval_every == 0 && !is_last) {
        progress.pause();
        validate();
      }
    }
    progress.pause();
    result_.is_interrupted = interrupted_;
  }

  void record(int64_t step, const session::Results& results, double tokens_per_s, int64_t ns) {
    for (size_t i = 0; i < results.names.size(); ++i) {
      tensorboard_.scalar("train/" + results.names[i], step, results.values[i].get(0));
    }
    tensorboard_.scalar("train/tokens_per_second", step, tokens_per_s);
    events_.write(
        EventLevel::kInfo, EventCategory::kRun, "step",
        {{"step", step}, {"loss", results.loss()}, {"ns", ns}, {"tokens_per_s", tokens_per_s}});
  }

  void validate() {
    model_->module().eval();
    double total = 0;
    for (int64_t i = 0; i < config_.num_eval_batches; ++i) {
      const Batch batch =
          model_->fit(data_.validation_batch(i, config_.num_eval_batches, model_->config().batch));
      total += loss_(batch.tokens, batch.targets).loss();
    }
    model_->module().train();
    result_.validation_loss = total / static_cast<double>(config_.num_eval_batches);
    tensorboard_.scalar("validation/loss", result_.num_steps, result_.validation_loss);
    events_.write(EventLevel::kInfo, EventCategory::kRun, "validation",
                  {{"step", result_.num_steps}, {"loss", result_.validation_loss}});
    if (config_.is_quiet) return;
    fmt::print(out_, "validation loss {:.4f} nats a byte after {} steps\n", result_.validation_loss,
               grouped(result_.num_steps));
  }

  // Draws bytes from the model's distribution, sharpened a little, after the text's beginning.
  std::string generate() {
    model_->module().eval();
    const int64_t block = model_->config().block;
    const std::string prompt(data_.training_text().substr(0, block));
    std::string text = prompt;
    for (int64_t i = 0; i < config_.sample_bytes && !interrupted_; ++i) {
      std::vector<int64_t> window;
      for (int64_t at = 0; at < block; ++at) {
        window.push_back(static_cast<uint8_t>(text[text.size() - block + at]));
      }
      const session::Results logits = logits_(ir::Literal::from_i64({1, block}, std::move(window)));
      text += draw(logits.values[0], philox_uniform(config_.seed, i, kSampleStream, 0));
    }
    model_->module().train();
    return text.substr(prompt.size());
  }

  static char draw(const ir::Literal& logits, double u) {
    double largest = logits.get(0), total = 0;
    for (int64_t i = 1; i < logits.num_elements(); ++i) largest = std::max(largest, logits.get(i));
    const auto weight = [&](int64_t i) {
      return std::exp((logits.get(i) - largest) / kTemperature);
    };
    for (int64_t i = 0; i < logits.num_elements(); ++i) total += weight(i);
    double left = u * total;
    for (int64_t i = 0; i < logits.num_elements(); ++i) {
      left -= weight(i);
      if (left < 0) return static_cast<char>(i);
    }
    return static_cast<char>(logits.num_elements() - 1);
  }

  void finish() {
    result_.unigram_entropy = data_.unigram_entropy();
    if (result_.num_steps > 0) validate();
    if (!config_.is_quiet) {
      fmt::print(out_, "unigram entropy {:.4f} nats a byte (a model without context)\n",
                 result_.unigram_entropy);
    }
    if (config_.sample_bytes > 0 && result_.num_steps > 0) {
      result_.sample = generate();
      if (!config_.is_quiet) fmt::print(out_, "\nsample\n{}\n", printable(result_.sample));
    }
    if (!result_.build.is_compiled) return;
    result_.run = make_run_report(*executable_->build(), executable_->step_times(), step_ns_,
                                  runtime::measure_copy_bandwidth());
    if (!config_.is_quiet) print(out_, result_.run);
  }

  static std::string printable(std::string text) {
    for (char& c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if ((byte < 0x20 && c != '\n' && c != '\t') || byte >= 0x7f) c = '?';
    }
    return text;
  }

  const TrainConfig& config_;
  EventLog& events_;
  std::FILE* out_;
  const std::atomic<bool>& interrupted_;
  std::unique_ptr<LanguageModel> model_;
  TextData data_;
  optim::AdamW optimizer_;
  session::Session session_;
  TensorBoardWriter tensorboard_;
  Compiled step_, loss_, logits_;
  session::Executable* executable_ = nullptr;
  TrainResult result_;
  std::vector<int64_t> step_ns_;
};

}  // namespace

TrainResult train(const TrainConfig& config, EventLog& events, std::FILE* out,
                  const std::atomic<bool>& interrupted) {
  check_config(config);
  return Trainer(config, events, out, interrupted).run();
}

}  // namespace monograph::train
