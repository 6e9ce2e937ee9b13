#include "train/trainer.h"

#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <span>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "comm/any_rank.h"
#include "frontend/nn/replicate.h"
#include "frontend/session/cuda_backend.h"
#include "frontend/trace/accumulate.h"
#include "frontend/trace/collectives.h"
#include "runtime/measure_link.h"
#include "train/checkpoint.h"
#include "train/compressed_exchange.h"
#include "train/pipeline_report.h"
#include "train/progress.h"
#include "train/rank_part.h"
#include "train/sample.h"
#include "train/step_records.h"

namespace monograph::train {
namespace {

using Clock = std::chrono::steady_clock;
using session::Compiled;
using trace::Tensor;

constexpr int64_t kMeasuredOnGpu = 3;
constexpr int64_t kTimelineFirst = kMeasuredOnGpu + 3, kTimelineSteps = 3;

int64_t ns_since(Clock::time_point start) {
  return std::chrono::nanoseconds(Clock::now() - start).count();
}

void check_config(const TrainConfig& config) {
  if (config.num_steps < 1) throw_user_error("--steps {}: use 1 or more", config.num_steps);
  if (config.num_micro_batches < 1) {
    throw_user_error("--accumulate {}: use 1 or more micro-batches", config.num_micro_batches);
  }
  if (config.num_eval_batches < 1) {
    throw_user_error("--eval-batches {}: use 1 or more", config.num_eval_batches);
  }
  if (config.sample_length < 0 || config.eval_every < 0) {
    throw_user_error("--sample {} --eval-every {}: use 0 (never) or more", config.sample_length,
                     config.eval_every);
  }
  if (config.checkpoint_every < 0) {
    throw_user_error("--checkpoint-every {}: use 0 (at the end only) or more",
                     config.checkpoint_every);
  }
  if (config.checkpoint_folder.empty() && (config.checkpoint_every > 0 || config.resume)) {
    throw_user_error("checkpoints need a place: give --checkpoint-dir FOLDER");
  }
  constexpr int64_t kLeastSteps = kTimelineFirst + kTimelineSteps + 1;
  if (!config.timeline_path.empty() && config.options.backend == "cuda" &&
      config.num_steps < kLeastSteps) {
    throw_user_error("--timeline with --device cuda takes --steps {} or more, {} were given",
                     kLeastSteps, config.num_steps);
  }
  // Better now than after the last step: makes the file beside it and removes it.
  const bool saves = config.mesh == nullptr || config.mesh->rank == 0;
  if (saves && !config.save_path.empty()) AtomicFile("--save", config.save_path);
  if (config.data_path.empty())
    throw_user_error("no data: give --data FILE, a text or a token file");
  check_compression(config);
}

class Trainer {
 public:
  Trainer(const TrainConfig& config, EventLog& events, std::FILE* out,
          const std::atomic<bool>& interrupted)
      : config_(config),
        out_(out),
        interrupted_(interrupted),
        is_first_(config.mesh == nullptr || config.mesh->rank == 0),
        is_quiet_(config.is_quiet || !is_first_),
        mesh_(mesh_of(config)),
        batch_(whole_batch(config)),
        model_(make_language_model(part_of_rank(config))),
        data_(open_dataset(config.data_path, model_->config().block, model_->config().vocab)),
        loss_scale_(optim::parse_loss_scale(config.loss_scale)),
        optimizer_(model_->module().parameters(), optimizer_config()),
        session_({.seed = config.seed,
                  .options = config.options,
                  .events = &events,
                  .mesh = config.mesh}),
        records_(events, is_first_ ? config.tensorboard_folder : "",
                 is_on_gpu() ? "" : config.timeline_path,
                 config.mesh == nullptr ? 0 : config.mesh->rank),
        step_(
            session_.compile([this](const Tensor& x, const Tensor& y) { return trace_step(x, y); },
                             options("train_step", {"tokens", "targets"}))),
        loss_(session_.compile(
            [this](const Tensor& x, const Tensor& y) { return mean(loss_of(x, y, y, 1)); },
            options("validation", {"tokens", "targets"}))),
        logits_(session_.compile([this](const Tensor& x) { return model_->next_logits(x); },
                                 options("next_logits", {"tokens"}))) {
    ModelDivision division{.tensor_parallel = {.is_sequence_parallel = config.is_sequence_parallel},
                           .pipeline = config.pipeline,
                           .fully_shard = {.strategy = config.strategy}};
    division.pipeline.micro_batches = config.num_micro_batches;
    is_sharded_ = divide_model(*model_, mesh_, division, is_on_gpu()) || is_sharded_;
    if (config.checkpoint_folder.empty() || !is_first_) return;
    writer_ = std::make_unique<CheckpointWriter>(config.checkpoint_folder, config.checkpoint_keep);
  }

  TrainResult run() {
    load();
    compile();
    if (config_.resume) resume();
    loop();
    finish();
    save();
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
            .max_norm = config_.max_norm,
            .loss_scale = loss_scale_,
            .moment_dtype = config_.moments == "bf16" ? ir::DType::kBF16 : ir::DType::kF32};
  }

  trace::Outputs trace_step(const Tensor& tokens, const Tensor& targets) {
    const int64_t num_parts = config_.num_micro_batches;
    const auto [scaled_loss, gradients] =
        trace::accumulate(num_parts, {tokens, targets}, [&](const auto& slice) {
          const Tensor loss = loss_of(slice[0], slice[1], targets, num_parts);
          return loss_scale_ ? (*loss_scale_)(loss) : loss;
        });
    // Read here: the optimizer sets the next step's.
    const Tensor scale = loss_scale_ ? loss_scale_->value(tokens.trace()) : Tensor();
    const optim::Metrics metrics = optimizer_.step(mean(gradients));
    const Tensor loss = loss_scale_ ? scaled_loss / scale : scaled_loss;
    trace::Outputs outputs = {{"loss", mean(loss)}, {"learning_rate", metrics.learning_rate}};
    if (config_.max_norm > 0) outputs.emplace_back("gradient_norm", metrics.gradient_norm);
    if (loss_scale_) outputs.emplace_back("loss_scale", scale);
    return outputs;
  }

  // Of one of the equal parts of this rank's targets, weighted so that the mean over parts and
  // ranks is that over all targets.
  Tensor loss_of(const Tensor& tokens, const Tensor& targets, const Tensor& of_rank,
                 int64_t num_parts) const {
    if (!is_padded()) return model_->loss(tokens, targets);
    Tensor total = count_valid(of_rank, kNoTarget);
    for (const std::string& axis : mesh_.batch_axes()) {
      if (mesh_.size(axis) > 1) total = trace::all_reduce(total, mesh_, axis);
    }
    const auto parts = static_cast<double>(num_parts * mesh_.batch_part(0).second);
    const Tensor share = count_valid(targets, kNoTarget) * (parts / maximum(total, 1.0));
    return model_->padded_loss(tokens, targets) * share;
  }

  bool is_padded() const { return model_->config().batch * mesh_.batch_part(0).second != batch_; }

  trace::Gradients mean(trace::Gradients gradients) const {
    for (const std::string& axis : mesh_.batch_axes())
      gradients = nn::replicate(gradients, mesh_, replicate_options(config_, mesh_, axis));
    return gradients;
  }

  Tensor mean(Tensor loss) const {
    for (const std::string& axis : mesh_.batch_axes()) {
      if (mesh_.size(axis) > 1) loss = trace::all_mean(loss, mesh_, axis);
    }
    return loss;
  }

  Rows rows() const {
    const int64_t slots = model_->config().batch;
    const int64_t part = mesh_.batch_part(config_.mesh == nullptr ? 0 : config_.mesh->rank).first;
    const int64_t first = std::min(part * slots, batch_);
    return {first, std::min(slots, batch_ - first), batch_, slots};
  }

  // Of the first axis that has several ranks; null: one rank.
  comm::Communicator* group() const {
    for (const ir::Mesh::Axis& axis : mesh_.axes()) {
      if (axis.size > 1) return &config_.mesh->along(axis.name, axis.size);
    }
    return nullptr;
  }

  // The largest of all ranks, on each of them.
  void take_largest(std::span<int64_t> values, std::string_view label) const {
    for (const ir::Mesh::Axis& axis : mesh_.axes()) {
      if (axis.size == 1) continue;
      config_.mesh->along(axis.name, axis.size)
          .all_reduce(values.data(), std::ssize(values), comm::ElementType::kI64,
                      comm::ReduceOp::kMax, label);
    }
  }

  // Whether some rank was interrupted: all stop after the same step.
  bool should_stop() {
    bool is_over = interrupted_;
    for (const ir::Mesh::Axis& axis : mesh_.axes()) {
      if (axis.size == 1) continue;
      is_over = comm::any_rank(config_.mesh->along(axis.name, axis.size), is_over, "stop");
    }
    return is_over;
  }

  void compile() {
    if (!is_quiet_) {
      fmt::print(out_, "{:<9} {} on {} {}s ({} for validation), {} parameters\n", "model",
                 model_->config().name, grouped(data_->num_training()), data_->unit(),
                 grouped(data_->num_validation()), grouped(model_->module().num_parameters()));
    }
    executable_ = &step_.executable(model_->input_types());
    const session::Build* build = executable_->build();
    result_.build = make_build_report(step_.trace_record(model_->input_types()), build);
    if (!is_quiet_) print(out_, result_.build);
    if (build == nullptr) return;
    for (const std::string& warning : build->kernels.warnings) {
      fmt::print(stderr, "warning: {}\n", warning);
    }
    executable_->measure_steps(!is_on_gpu());
    if (group() == nullptr) return;
    link_ = is_on_gpu() ? session::link_of(config_.options) : runtime::measure_link(*group());
  }

  void load() {
    if (config_.init_from.empty()) return;
    const auto set = [&](const std::string& name, const ir::Literal& value) {
      session_.set_state(name, value);
    };
    import::load_weights(config_.init_from, model_->weight_names(), set);
  }

  void save() {
    if (config_.save_path.empty() || !writes()) return;
    std::map<std::string, ir::Literal> gathered;
    if (is_sharded_) {
      for (const import::WeightName& weight : model_->weight_names().weights) {
        ir::Literal value = session_.state(weight.state.name());
        if (is_first_) gathered[weight.state.name()] = std::move(value);
      }
    }
    if (!is_first_) return;
    const auto get = [&](const std::string& name) {
      return is_sharded_ ? gathered.at(name) : session_.state(name);
    };
    import::save_weights(config_.save_path, model_->weight_names(), get);
    if (!is_quiet_) fmt::print(out_, "weights saved to {}\n", config_.save_path);
  }

  void loop() {
    Progress progress(out_, config_.num_steps, is_quiet_);
    const int64_t targets =
        model_->input_types()[1].num_elements() / model_->config().batch * batch_;
    for (int64_t step = result_.resumed_from; step < config_.num_steps; ++step) {
      is_over_ = should_stop();
      if (is_over_) break;
      const Batch batch = model_->fit(data_->training_batch(config_.seed, step, rows()));
      const bool is_measured_alone = is_on_gpu() && step >= 1 && step <= kMeasuredOnGpu;
      if (is_on_gpu()) executable_->measure_steps(is_measured_alone);
      if (!config_.timeline_path.empty() && is_on_gpu()) record_timeline(step);
      const auto start = Clock::now();
      const session::Results results = step_(batch.tokens, batch.targets);
      const int64_t ns = ns_since(start);
      if (!is_measured_alone) step_ns_.push_back(ns);
      result_.num_steps = step + 1;
      result_.losses.push_back(results.loss());
      result_.training_loss = results.loss();
      if (!std::isfinite(results.loss())) {
        progress.pause();
        throw_user_error("the loss is {} at step {}: try a lower --lr or a longer --warmup",
                         results.loss(), step + 1);
      }
      const double tokens_per_s = static_cast<double>(targets) / static_cast<double>(ns) * 1e9;
      records_.add({step, config_.num_steps, start, ns, tokens_per_s}, results, *executable_);
      progress.step(step + 1, results.loss(), tokens_per_s);
      const bool is_last = step + 1 == config_.num_steps;
      if (config_.checkpoint_every > 0 && (step + 1) % config_.checkpoint_every == 0 && !is_last) {
        save_checkpoint();
      }
      if (config_.eval_every > 0 && (step + 1) % config_.eval_every == 0 && !is_last) {
        progress.pause();
        validate();
      }
    }
    progress.pause();
    result_.is_interrupted = is_over_;
    if (result_.num_steps > result_.resumed_from) save_checkpoint();
    if (writer_) writer_->finish();
  }

  // Whether this rank takes part in what is done once for all: the first one does it, and where
  // states are sharded the others give their parts.
  bool writes() const { return is_first_ || is_sharded_; }

  // What a run must share with the one that it goes on from.
  std::map<std::string, std::string> settings() const {
    return {{"model", model_->config().name},
            {"seed", fmt::format("{}", config_.seed)},
            {"batch", fmt::format("{}", rows().of)},
            {"precision", config_.options.residual == "f32"
                              ? config_.options.precision
                              : fmt::format("{}, residual {}", config_.options.precision,
                                            config_.options.residual)},
            {"data", data_fingerprint()}};
  }

  // Of its size, beginning and end: reading all of a large file would take long.
  std::string data_fingerprint() const {
    constexpr int64_t kMaxTokens = 65536;
    const int64_t total = data_->num_training() + data_->num_validation();
    const int64_t count = std::min(total, kMaxTokens);
    Hasher hasher;
    hasher.add(data_->unit()).add(total);
    for (const int64_t first : {int64_t{0}, total - count}) {
      for (const int64_t token : data_->tokens(first, count)) hasher.add(token);
    }
    return hasher.finish().hex();
  }

  // The states are copied now and written in the background.
  void save_checkpoint() {
    if (config_.checkpoint_folder.empty() || !writes()) return;
    Checkpoint checkpoint;
    checkpoint.step = result_.num_steps;
    checkpoint.settings = settings();
    for (const std::string& name : session_.state_names()) {
      if (!is_saved(name)) continue;
      ir::Literal value = session_.state(name);
      if (is_first_) checkpoint.states[name] = std::move(value);
    }
    if (!writer_) return;
    const bool waited = writer_->save(std::move(checkpoint));
    if (waited && result_.num_steps % std::max<int64_t>(config_.checkpoint_every, 1) == 0) {
      fmt::print(stderr,
                 "warning: the checkpoint of step {} waited for the one before: use a larger "
                 "--checkpoint-every\n",
                 result_.num_steps);
    }
  }

  void resume() {
    const std::vector<int64_t> steps = checkpoint_steps(config_.checkpoint_folder);
    int64_t newest = steps.empty() ? 0 : steps.back();
    check_same_step(newest);
    if (newest == 0) {
      if (!is_quiet_) fmt::print(out_, "resume    no checkpoint yet: begins at step 0\n");
      return;
    }
    Checkpoint checkpoint = read_checkpoint(config_.checkpoint_folder, newest);
    checkpoint.check_settings(config_.checkpoint_folder, settings());
    const std::string change = fit_exchange_states(session_, checkpoint);
    if (!change.empty() && is_first_) fmt::print(stderr, "warning: {}\n", change);
    restore(checkpoint, config_.checkpoint_folder, session_);
    result_.resumed_from = result_.num_steps = newest;
    if (!is_quiet_) fmt::print(out_, "resume    from step {}\n", grouped(newest));
  }

  void check_same_step(int64_t step) {
    int64_t ends[2] = {step, -step};
    take_largest(ends, "resume");
    if (ends[0] == -ends[1]) return;
    throw_user_error(
        "ranks see different checkpoints in '{}', the newest of step {} to {}: the folder must be "
        "the same on all of them",
        config_.checkpoint_folder, -ends[1], ends[0]);
  }

  // Of a few steps in the middle of replaying.
  void record_timeline(int64_t step) {
    if (step == kTimelineFirst) end_timeline_ = session::start_gpu_timeline();
    if (step != kTimelineFirst + kTimelineSteps) return;
    const std::string summary = end_timeline_(config_.timeline_path);
    if (!is_quiet_) fmt::print(out_, "{}", summary);
  }

  // There, steps that are measured part by part are not replayed as one: only the first are.
  bool is_on_gpu() const { return config_.options.backend == "cuda"; }

  void validate() {
    model_->module().eval();
    double total = 0;
    for (int64_t i = 0; i < config_.num_eval_batches; ++i) {
      const Batch batch = model_->fit(data_->validation_batch(i, config_.num_eval_batches, rows()));
      total += loss_(batch.tokens, batch.targets).loss();
    }
    model_->module().train();
    result_.validation_loss = total / static_cast<double>(config_.num_eval_batches);
    records_.add_validation(result_.num_steps, result_.validation_loss);
    if (is_quiet_) return;
    fmt::print(out_, "validation loss {:.4f} nats a {} after {} steps\n", result_.validation_loss,
               data_->unit(), grouped(result_.num_steps));
  }

  std::string generate() {
    model_->module().eval();
    const std::vector<int64_t> tokens =
        sample_tokens([this](const ir::Literal& window) { return logits_(window).values[0]; },
                      data_->tokens(0, model_->config().block), config_.sample_length, config_.seed,
                      [this] { return interrupted_.load(); });
    model_->module().train();
    // Tokens have no spelling here: their ids stand for them.
    if (data_->unit() != "byte") return fmt::format("{}", fmt::join(tokens, " "));
    return bytes_of_tokens(tokens);
  }

  void finish() {
    records_.finish();
    result_.unigram_entropy = data_->unigram_entropy();
    if (result_.num_steps > 0) validate();
    if (!is_quiet_) {
      fmt::print(out_, "unigram entropy {:.4f} nats a {} (a model without context)\n",
                 result_.unigram_entropy, data_->unit());
    }
    if (config_.sample_length > 0 && result_.num_steps > 0 && writes()) {
      result_.sample = generate();
      if (!is_quiet_) fmt::print(out_, "\nsample\n{}\n", printable(result_.sample));
    }
    if (!result_.build.is_compiled) return;
    result_.run = make_run_report(*executable_->build(), executable_->step_times(), step_ns_,
                                  executable_->copy_bandwidth());
    if (!is_quiet_) {
      print(out_, result_.run);
      fmt::print(out_, "\n");
      print_summary(out_, result_.build,
                    step_.num_signatures() - 1 + static_cast<int>(step_.num_eager_calls()));
    }
    if (group() == nullptr) return;
    result_.exchange = make_exchange_report(executable_->build()->compilation.program,
                                            executable_->step_times(), link_);
    result_.exchange.transport = is_on_gpu() ? "NCCL" : group()->name();
    if (is_quiet_) return;
    print(out_, result_.exchange);
    print_idle(out_, result_.build.pipeline, config_.mesh->rank, result_.run.exposed_ms,
               result_.run.step_ms);
  }

  const TrainConfig& config_;
  std::FILE* out_;
  const std::atomic<bool>& interrupted_;
  const bool is_first_, is_quiet_;  // rank 0 prints
  const ir::Mesh mesh_;
  const int64_t batch_;  // rows of all ranks
  ir::LinkModel link_;
  bool is_over_ = false, is_sharded_ = config_.compression.has_residual();
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<Dataset> data_;
  std::optional<optim::LossScale> loss_scale_;
  optim::AdamW optimizer_;
  session::Session session_;
  StepRecords records_;
  Compiled step_, loss_, logits_;
  session::Executable* executable_ = nullptr;
  std::function<std::string(const std::string&)> end_timeline_;
  std::unique_ptr<CheckpointWriter> writer_;  // on rank 0, if wanted
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
