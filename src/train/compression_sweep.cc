#include "train/compression_sweep.h"

#include <omp.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "comm/threads/thread_world.h"
#include "frontend/nn/optim/optimizer.h"
#include "frontend/nn/replicate.h"
#include "frontend/trace/collectives.h"
#include "frontend/trace/functions.h"
#include "ir/state_names.h"
#include "ops/collective/collective.h"
#include "ops/registry.h"
#include "train/index_watch.h"
#include "train/report.h"

namespace monograph::train {
namespace {

using trace::Tensor;

constexpr size_t kWindow = 10;  // steps that a loss is the mean of
constexpr const char* kAxis = "data";

struct SweepRun {
  std::vector<double> losses;
  double deviation = 0, norm_deviation = 0;
  int64_t sent_bytes = 0;  // without those saved
  passes::ExchangeSavings savings;
  std::vector<std::string> findings;
};

// The norm of all gradients together, less those of `others`, if given.
Tensor norm_of(const trace::Gradients& gradients, const trace::Gradients* others = nullptr) {
  Tensor squares;
  for (const trace::State& parameter : gradients.parameters()) {
    const Tensor gradient = gradients[parameter];
    const Tensor rest = others == nullptr ? gradient : gradient - (*others)[parameter];
    const Tensor own = sum(rest * rest);
    squares = squares ? squares + own : own;
  }
  return sqrt(squares);
}

// One rank's part of training with one setting.
class SweepRank {
 public:
  SweepRank(const SweepConfig& config, const ops::Compression& compression, comm::World& world)
      : config_(config),
        compression_(compression),
        rank_(world.rank),
        mesh_({{kAxis, config.num_ranks}}),
        model_(make_language_model(part_of(config))),
        optimizer_(model_->module().parameters(),
                   {.learning_rate = optim::Schedule::cosine(
                        config.learning_rate, config.learning_rate / 10,
                        std::min<int64_t>(50, config.num_steps / 4), config.num_steps),
                    .beta2 = 0.95,
                    .weight_decay = 0.1,
                    .max_norm = 1.0}),
        session_({.seed = config.seed,
                  .options = config.options,
                  .mesh = runtime::make_mesh_context(mesh_, world)}),
        step_(session_.compile(
            [this](const Tensor& x, const Tensor& y) { return trace_step(x, y); })) {}

  SweepRun run() {
    const auto& sizes = model_->config();
    const auto data = open_dataset(config_.data_path, sizes.block, sizes.vocab);
    SweepRun result;
    for (int64_t step = 0; step < config_.num_steps; ++step) {
      const Rows rows(rank_ * sizes.batch, sizes.batch, sizes.batch * config_.num_ranks);
      const Batch batch = model_->fit(data->training_batch(config_.seed, step, rows));
      const session::Results results = step_(batch.tokens, batch.targets);
      result.losses.push_back(results.loss());
      const double norm = results.scalar("exact_norm"),
                   share = 1.0 / static_cast<double>(config_.num_steps);
      result.deviation += share * results.scalar("distance") / norm;
      result.norm_deviation += share * std::abs(results.scalar("norm") / norm - 1);
      watch_indices(step + 1);
      if (!std::isfinite(results.loss())) break;  // on all ranks
    }
    result.savings = step_.trace_record(model_->input_types()).savings;
    result.sent_bytes = sent_bytes();
    result.findings = watch_.findings();
    return result;
  }

 private:
  static ModelConfig part_of(const SweepConfig& config) {
    ModelConfig model = config.model;
    const int64_t batch = make_language_model(model)->config().batch;
    if (batch % config.num_ranks != 0) {
      throw_user_error("a batch of {} rows on {} ranks: use a number of rows that they divide",
                       batch, config.num_ranks);
    }
    model.batch = batch / config.num_ranks;
    return model;
  }

  trace::Outputs trace_step(const Tensor& x, const Tensor& y) {
    const Tensor loss = model_->loss(x, y);
    const trace::Gradients own = loss.backward();
    const trace::Gradients exact = nn::replicate(own, mesh_, kAxis);
    const trace::Gradients means =
        compression_.is_on()
            ? nn::replicate(own, mesh_, {.axis = kAxis, .compression = compression_})
            : exact;
    const optim::Metrics metrics = optimizer_.step(means);
    return {{"loss", trace::all_mean(loss, mesh_, kAxis)},
            {"norm", metrics.gradient_norm},
            {"exact_norm", norm_of(exact)},
            {"distance", norm_of(exact, &means)}};
  }

  void watch_indices(int64_t step) {
    if (compression_.method != ops::Compression::Method::kTopK) return;
    for (const std::string& name : session_.state_names()) {
      if (!name.starts_with(ir::kIndicesPrefix)) continue;
      const ir::Literal indices = session_.state(name);
      const std::string gradient =
          name.substr(ir::kIndicesPrefix.size() + std::string_view(kAxis).size() + 1);
      const int64_t count = session_.state_type(gradient).num_elements();
      watch_.observe(gradient, step, indices.as<int32_t>(), count);
    }
  }

  int64_t sent_bytes() {
    int64_t bytes = 0;
    for (const auto& node : step_.graph(model_->input_types()).nodes()) {
      if (!ops::has_trait(*node, ops::kCollective)) continue;
      bytes += ops::collective_step(*node).sent_bytes();
    }
    return bytes;
  }

  const SweepConfig& config_;
  const ops::Compression compression_;
  const int rank_;
  const ir::Mesh mesh_;
  std::unique_ptr<LanguageModel> model_;
  optim::AdamW optimizer_;
  session::Session session_;
  session::Compiled step_;
  IndexWatch watch_;
};

SweepRun run_on_threads(const SweepConfig& config, const ops::Compression& compression) {
  std::vector<SweepRun> runs(config.num_ranks);
  comm::run_ranks(static_cast<int>(config.num_ranks), [&](comm::World& world) {
    omp_set_num_threads(1);
    runs[world.rank] = SweepRank(config, compression, world).run();
  });
  return runs[0];
}

// Of the window that ends with the step.
double mean_before(const std::vector<double>& losses, size_t end) {
  const size_t count = std::min(kWindow, end);
  double total = 0;
  for (size_t i = end - count; i < end; ++i) total += losses[i];
  return total / static_cast<double>(count);
}

void check_sweep(const SweepConfig& config) {
  if (config.num_steps < 1 || config.num_ranks < 2 || !(config.tolerance > 0)) {
    throw_user_error(
        "a sweep of {} steps on {} ranks, tolerance {}: use 1 step, 2 ranks or more, "
        "and a tolerance above 0",
        config.num_steps, config.num_ranks, config.tolerance);
  }
  if (config.data_path.empty())
    throw_user_error("no data: give --data FILE, a text or a token file");
}

}  // namespace

int64_t broken_since(const std::vector<double>& losses, const std::vector<double>& reference,
                     double tolerance) {
  const auto is_broken = [&](size_t end) {
    const double limit = mean_before(reference, std::min(end, reference.size())) * (1 + tolerance);
    return !(mean_before(losses, end) <= limit);  // NaN is
  };
  size_t end = losses.size();
  while (end > 0 && is_broken(end)) --end;
  return end == losses.size() ? -1 : static_cast<int64_t>(end) + 1;
}

std::vector<SweepRow> sweep_compression(const SweepConfig& config) {
  check_sweep(config);
  std::vector<ops::Compression> settings;
  for (const std::string& text : config.settings) {
    settings.push_back(ops::parse_compression(text));
  }
  const SweepRun exact = run_on_threads(config, {});
  std::vector<SweepRow> rows = {{.setting = "none",
                                 .sent_bytes = exact.sent_bytes,
                                 .loss = mean_before(exact.losses, exact.losses.size())}};
  for (const ops::Compression& compression : settings) {
    const SweepRun run = run_on_threads(config, compression);
    // The step also exchanges exact gradients, to compare: they are no part of training.
    const int64_t saved = run.savings.bytes_before - run.savings.bytes_after;
    rows.push_back({.setting = compression.str(),
                    .sent_bytes = exact.sent_bytes - saved,
                    .deviation = run.deviation,
                    .norm_deviation = run.norm_deviation,
                    .loss = mean_before(run.losses, run.losses.size()),
                    .broken_since = broken_since(run.losses, exact.losses, config.tolerance),
                    .findings = run.findings});
  }
  return rows;
}

void print(std::FILE* out, const SweepConfig& config, const std::vector<SweepRow>& rows) {
  fmt::print(out, "{}: {} ranks, {} steps; breaks: {:.0f} % above the loss without compression\n\n",
             config.model.name, config.num_ranks, config.num_steps, 100 * config.tolerance);
  fmt::print(out, "{:<12} {:>12} {:>9} {:>9} {:>9} {:>8} {:>8}  {}\n", "setting", "bytes sent",
             "of all", "off", "norm off", "loss", "against", "breaks at step");
  const SweepRow& exact = rows.at(0);
  for (const SweepRow& row : rows) {
    fmt::print(out, "{:<12} {:>12} {:>7.1f} % {:>7.1f} % {:>7.1f} % {:>8.4f} {:>+8.4f}  {}\n",
               row.setting, grouped(row.sent_bytes),
               100 * static_cast<double>(row.sent_bytes) / static_cast<double>(exact.sent_bytes),
               100 * row.deviation, 100 * row.norm_deviation, row.loss, row.loss - exact.loss,
               row.broken_since < 0 ? "-" : fmt::format("{}", row.broken_since));
  }
  for (const SweepRow& row : rows) {
    for (const std::string& finding : row.findings) {
      fmt::print(out, "{}: {}\n", row.setting, finding);
    }
  }
}

}  // namespace monograph::train
