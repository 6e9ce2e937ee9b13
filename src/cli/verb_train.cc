#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "cli/job_cache.h"
#include "cli/model_options.h"
#include "cli/verbs.h"
#include "comm/process/process_world.h"
#include "train/metrics.h"
#include "train/trainer.h"

namespace monograph::cli {
namespace {

constexpr int kInterrupted = 130;
std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler may set it

// The first Ctrl-C ends the run after its step; the second one ends the program.
void on_interrupt(int) {
  interrupted = true;
  std::signal(SIGINT, SIG_DFL);
}

void add_optimizer_options(Arguments& arguments, train::TrainConfig& config) {
  add_micro_batches_option(arguments, config.num_micro_batches);
  arguments.option("lr", &config.learning_rate, "peak learning rate");
  arguments.option("final-lr", &config.final_learning_rate, "learning rate at the last step");
  arguments.option("warmup", &config.warmup_steps, "steps of linear warm-up (at most half of all)");
  arguments.option("weight-decay", &config.weight_decay, "of weights with two or more dims");
  arguments.option("clip", &config.max_norm, "largest norm of all gradients together; 0: no limit");
  arguments.option("loss-scale", &config.loss_scale,
                   "factor of the loss in backward: none, dynamic or a number; steps whose "
                   "gradients are not finite are skipped");
  add_moments_option(arguments, config.moments);
}

void add_checkpoint_options(Arguments& arguments, train::TrainConfig& config) {
  arguments.option("checkpoint-dir", &config.checkpoint_folder,
                   "write checkpoints to this folder, one at the end");
  arguments.option("checkpoint-every", &config.checkpoint_every,
                   "steps between checkpoints, too; written in the background");
  arguments.option("checkpoint-keep", &config.checkpoint_keep, "checkpoints to keep");
  arguments.option("resume", &config.resume, "go on from the newest checkpoint, if there is one");
}

// What a run writes beside its weights; paths, empty: nothing.
struct Records {
  std::string events, metrics, otlp, levels = "info";
  double peak_tflops = 0;
};

void add_record_options(Arguments& arguments, Records& records) {
  const char* const given = std::getenv("MONOGRAPH_LOGS");
  if (given != nullptr) records.levels = given;
  arguments.option(
      "log-events", &records.events,
      "append structured events (JSON lines) to this file; of several ranks each to its "
      "own, FILE.rankN");
  arguments.option("log-level", &records.levels,
                   "of events: trace, debug, info or off; also by category, "
                   "\"off,compile=debug\"; default: $MONOGRAPH_LOGS");
  arguments.option("metrics", &records.metrics,
                   "keep counters and times in this file, in Prometheus' text format; of several "
                   "ranks each its own, FILE.rankN");
  arguments.option("otlp", &records.otlp,
                   "send the same to a collector of OpenTelemetry, http://HOST:PORT, or append it "
                   "to this file");
  arguments.option("peak-tflops", &records.peak_tflops,
                   "what a rank's device can do in a second, in 1e12; for the metric mfu");
}

// Of several ranks each writes its own files.
void add_rank(Records& records, std::string& timeline, int rank) {
  for (std::string* path : {&records.events, &records.metrics, &records.otlp, &timeline}) {
    const bool is_file = !path->empty() && path->find("://") == path->npos;
    if (is_file) *path += fmt::format(".rank{}", rank);
  }
}

void begin_metrics(const Records& records, int rank, EventLog& events,
                   std::optional<train::Metrics>& metrics) {
  if (records.peak_tflops < 0) {
    throw_user_error("--peak-tflops {}: use a number above 0", records.peak_tflops);
  }
  if (records.metrics.empty() && records.otlp.empty()) return;
  metrics.emplace(records.metrics, rank, records.peak_tflops * 1e12);
  if (!records.otlp.empty()) metrics->send_to(train::OtlpTarget(records.otlp));
  metrics->watch(events);
}

// Takes this rank's place on the mesh: by default that of copies on all ranks; one rank needs none.
void join_mesh(MeshOptions options, comm::World& world, train::TrainConfig& config) {
  if (world.size > 1 && options.axes.empty()) options.axes = {fmt::format("dp={}", world.size)};
  const ir::Mesh mesh = options.mesh();
  config.strategy = nn::parse_shard_strategy(options.strategy);
  config.is_sequence_parallel = options.is_sequence_parallel;
  if (!options.link.empty()) session::set_option(config.options, "link", options.link);
  config.compression = options.compression(mesh);
  config.pipeline = options.pipeline(config.num_micro_batches);
  if (!mesh.axes().empty()) config.mesh = runtime::make_mesh_context(mesh, world);
}

}  // namespace

int run_train(std::span<const std::string> args) {
  std::unique_ptr<comm::World> world;  // outlives what runs on it
  train::TrainConfig config;
  Records records;
  bool json = false, removes_cache = false;
  Arguments arguments("monograph train",
                      "trains a language model on the bytes of a text, or a file of tokens");
  add_model_options(arguments, config.model, /*takes_images=*/false);
  arguments.option("data", &config.data_path,
                   "plain text; or tokens of 16 bits (.bin of nanoGPT or llm.c)");
  arguments.option("steps", &config.num_steps, "training steps");
  add_optimizer_options(arguments, config);
  arguments.option("seed", &config.seed, "of weights, batches, dropout and the sample");
  arguments.option("eval-every", &config.eval_every,
                   "steps between validations; 0: at the end only");
  arguments.option("eval-batches", &config.num_eval_batches, "batches of a validation");
  arguments.option("sample", &config.sample_length, "tokens to generate at the end");
  arguments.option("init-from", &config.init_from,
                   "begin with the weights of this safetensors file (Hugging Face's names)");
  arguments.option("save", &config.save_path, "write the weights to this safetensors file");
  add_checkpoint_options(arguments, config);
  arguments.option("tensorboard", &config.tensorboard_folder, "write scalars to this folder");
  arguments.option(
      "timeline", &config.timeline_path,
      "write what the device does in a few steps to this file, for Perfetto; of several "
      "ranks each its own, FILE.rankN");
  add_record_options(arguments, records);
  arguments.option("remove-cache", &removes_cache,
                   "remove the folder of --cache-dir, named by a ${VARIABLE}, at the end");
  arguments.option("json", &json, "print the report as JSON and nothing else");
  add_compile_options(arguments, config.options);
  MeshOptions mesh;
  add_mesh_options(arguments, mesh);
  if (!arguments.parse(args)) return 0;
  config.is_quiet = json;
  const JobCache cache(config.options.cache_dir, removes_cache);
  world = comm::join_world(comm::world_from_environment());
  join_mesh(mesh, *world, config);
  if (config.mesh != nullptr) add_rank(records, config.timeline_path, world->rank);
  EventLog events = records.events.empty()
                        ? EventLog()
                        : EventLog(records.events, parse_event_levels(records.levels), world->rank);
  std::optional<train::Metrics> metrics;
  begin_metrics(records, world->rank, events, metrics);
  std::signal(SIGINT, on_interrupt);
  const train::TrainResult result = train::train(config, events, stdout, interrupted);
  if (metrics) metrics->write();
  if (json && world->rank == 0) {
    fmt::print(
        "{{\"steps\":{},\"training_loss\":{},\"validation_loss\":{},\"unigram_entropy\":{},"
        "\"report\":{}}}\n",
        result.num_steps, result.training_loss, result.validation_loss, result.unigram_entropy,
        train::to_json(result.build, result.run, result.exchange));
  }
  if (!result.is_interrupted) return 0;
  fmt::print(stderr, "interrupted after {} of {} steps\n", result.num_steps, config.num_steps);
  return kInterrupted;
}

}  // namespace monograph::cli
