// Trains a Llama of 1.1 billion parameters (head not tied) on random tokens, a rank a GPU, and
// prints one JSON line a rank; same model, sizes and optimizer as PyTorch's DDP and FSDP2 runs.
// Usage: monograph run --nproc-per-node N -- bench_gpu_data_parallel [--batch ROWS_OF_A_RANK]
//          [--layers L] [--length T] [--levels 2,1,0] [--mode MODE] [--seconds S] [--losses N]
//          [--plan replicate|full-shard|shard-grad-op|hybrid] [--timeline FILE] [--table 1]
//          [--options NAME=VALUE,...]
// Plan hybrid: two ranks to a part, an even number of copies. --options: of compilation, as
// residual=bf16,deterministic=false.
// Alone, without `monograph run`: one rank. --losses N: trains N steps and prints each loss, to
// compare runs; the batch of all ranks together is the same for any number of them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "comm/process/process_world.h"
#include "frontend/session/cuda_backend.h"
#include "frontend/session/executable.h"
#include "frontend/session/monograph.h"
#include "train/report.h"

namespace monograph {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Config {
  std::map<std::string, int64_t> numbers = {{"--batch", 8},  {"--layers", 16},  {"--length", 2048},
                                            {"--losses", 0}, {"--width", 2048}, {"--seconds", 3},
                                            {"--table", 0}};
  std::map<std::string, std::string> words = {{"--mode", "reduce-overhead"},
                                              {"--plan", "replicate"},
                                              {"--levels", "2"},
                                              {"--options", ""},
                                              {"--timeline", ""}};

  int64_t number(const char* name) const { return numbers.at(name); }
  const std::string& word(const char* name) const { return words.at(name); }
};

Config parse(int argc, char** argv) {
  Config config;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (i + 1 == argc) throw_user_error("option {} needs a value", option);
    if (config.numbers.contains(option)) {
      config.numbers[option] = std::stoll(argv[i + 1]);
    } else if (config.words.contains(option)) {
      config.words[option] = argv[i + 1];
    } else {
      throw_user_error("unknown option {}: see the top of the source", option);
    }
  }
  return config;
}

constexpr int64_t kVocabulary = 32000;
constexpr int kBatches = 4;

// The rows of this rank out of those of all ranks.
std::vector<std::vector<Literal>> random_batches(const Config& config, const comm::World& world) {
  const int64_t rows = config.number("--batch"), length = config.number("--length");
  std::mt19937 random(1);
  std::uniform_int_distribution<int64_t> token(0, kVocabulary - 1);
  std::vector<std::vector<Literal>> batches;
  for (int b = 0; b < kBatches; ++b) {
    std::vector<int64_t> x, y;
    for (int64_t row = 0; row < rows * world.size; ++row) {
      int64_t next = token(random);
      for (int64_t t = 0; t < length; ++t) {
        const int64_t now = next;
        next = token(random);
        if (row / rows != world.rank) continue;
        x.push_back(now);
        y.push_back(next);
      }
    }
    const ir::Shape shape{rows, length};
    batches.push_back({Literal::from_i64(shape, std::move(x)), Literal::from_i64(shape, y)});
  }
  return batches;
}

ir::Mesh mesh_of(const std::string& plan, int64_t num_ranks) {
  if (plan == "replicate") return ir::Mesh({{"data", num_ranks}});
  if (plan != "hybrid") return ir::Mesh({{"fsdp", num_ranks}});
  if (num_ranks % 4 != 0) {
    throw_user_error("--plan hybrid on {} ranks: use a multiple of 4", num_ranks);
  }
  return ir::Mesh({{"dp", num_ranks / 2}, {"fsdp", 2}});
}

session::CompileOptions compile_options(const Config& config) {
  session::CompileOptions options = {
      .backend = "cuda", .mode = config.word("--mode"), .precision = "bf16"};
  session::set_options(options, config.word("--options"));
  return options;
}

class Run {
 public:
  Run(const Config& config, comm::World& world)
      : config_(config),
        world_(world),
        mesh_(mesh_of(config.word("--plan"), world.size)),
        model_({.vocab_size = kVocabulary,
                .block_size = config.number("--length"),
                .n_layer = config.number("--layers"),
                .n_head = config.number("--width") / 64,
                .n_kv_head = config.number("--width") / 256,
                .n_embd = config.number("--width"),
                .n_hidden = 4 * config.number("--width"),
                .is_tied = false}),
        optimizer_(model_.parameters(), {.learning_rate = optim::Schedule::constant(3e-4),
                                         .beta2 = 0.95,
                                         .weight_decay = 0.1,
                                         .max_norm = 1.0}),
        options_(compile_options(config)),
        session_({.options = options_,
                  .mesh = world.size > 1 ? runtime::make_mesh_context(mesh_, world) : nullptr}),
        batches_(random_batches(config, world)) {
    if (!mesh_.has("fsdp")) return;
    nn::fully_shard(model_, mesh_, {.strategy = nn::parse_shard_strategy(config.word("--plan"))});
  }

  void train() {
    for (const char level : config_.word("--levels")) {
      if (level != ',') train_at(level - '0');
    }
  }

 private:
  // Levels share the weights: each goes on where the last one ended.
  void train_at(int level) {
    const auto start = Clock::now();
    session::CompileOptions options = options_;
    options.comm_optimization_level = level;
    session::Compiled step = session_.compile(
        [this](const Tensor& x, const Tensor& y) { return trace_step(x, y); }, options);
    session::Executable& executable =
        step.executable({batches_[0][0].type(), batches_[0][1].type()});
    const double compile_s = seconds_since(start);
    std::vector<double> losses = {step(batches_[0]).loss()};
    const double first_step_s = seconds_since(start);
    if (config_.number("--losses") > 0) return print_losses(step, level, std::move(losses));
    for (int i = 1; i < kBatches; ++i) step(batches_[i]);
    const auto [ms, loss] = time_steps(step);
    const double tokens = static_cast<double>(batches_[0][0].num_elements());
    const ir::Program& program = executable.build()->compilation.program;
    fmt::print(
        "RESULT {{\"fw\":\"monograph\",\"rank\":{},\"world\":{},\"plan\":\"{}\",\"level\":{},"
        "\"mode\":\"{}\",\"options\":\"{}\",\"B\":{},\"params\":{},\"tok_s_gpu\":{:.0f},"
        "\"ms\":{:.2f},\"compile_s\":{:.2f},\"first_step_s\":{:.2f},\"gb_in_use\":{:.2f},"
        "\"plan_gb\":{:.2f},\"loss0\":{:.5f},\"lossN\":{:.5f},\"program\":\"{}\"}}\n",
        world_.rank, world_.size, config_.word("--plan"), level, config_.word("--mode"),
        config_.word("--options"), config_.number("--batch"), model_.num_parameters(),
        tokens / ms * 1e3, ms, compile_s, first_step_s,
        static_cast<double>(executable.gpu_bytes_in_use()) / 1e9,
        static_cast<double>(program.peak_bytes) / 1e9, losses[0], loss,
        hash_of(program.str()).hex());
    std::fflush(stdout);
    if (!config_.word("--timeline").empty()) print_timeline(step, level);
    if (config_.number("--table") > 0) print_table(step, executable);
  }

  Tensor trace_step(const Tensor& tokens, const Tensor& targets) {
    const Tensor loss = model_.loss(tokens, targets);
    Tensor mean = loss;
    trace::Gradients gradients = loss.backward();
    for (const std::string& axis : mesh_.batch_axes()) {
      if (mesh_.size(axis) == 1) continue;
      gradients = nn::replicate(gradients, mesh_, axis);
      mean = trace::all_mean(mean, mesh_, axis);
    }
    optimizer_.step(gradients);
    return mean;
  }

  // The host prepares a step while the one before runs. All ranks do equally many.
  std::pair<double, double> time_steps(session::Compiled& step) {
    const auto probe = Clock::now();
    step(batches_[0]);
    auto num_steps = static_cast<int32_t>(1 + static_cast<double>(config_.number("--seconds")) /
                                                  seconds_since(probe));
    const auto ranks = world_.all("steps");
    ranks->all_reduce(&num_steps, 1, comm::ElementType::kI32, comm::ReduceOp::kMax, "steps");
    const auto start = Clock::now();
    std::function<session::Results()> last;
    for (int i = 0; i < num_steps; ++i) {
      auto next = step.start(batches_[i % kBatches]);
      if (last) last();
      last = std::move(next);
    }
    const double loss = last().loss();
    return {seconds_since(start) * 1e3 / num_steps, loss};
  }

  void print_losses(session::Compiled& step, int level, std::vector<double> losses) {
    while (std::ssize(losses) < config_.number("--losses")) {
      losses.push_back(step(batches_[losses.size() % kBatches]).loss());
    }
    fmt::print("LOSSES {} world {} rank {} level {}: {:.9g}\n", config_.word("--plan"), world_.size,
               world_.rank, level, fmt::join(losses, " "));
  }

  void print_timeline(session::Compiled& step, int level) {
    constexpr int kSteps = 3;
    const auto end = session::start_gpu_timeline();
    for (int i = 0; i < kSteps; ++i) step(batches_[i]);
    const std::string text =
        end(fmt::format("{}.level{}.rank{}", config_.word("--timeline"), level, world_.rank));
    if (world_.rank == 0) fmt::print("timeline of {} steps at level {}\n{}", kSteps, level, text);
  }

  void print_table(session::Compiled& step, session::Executable& executable) {
    executable.measure_steps(true);
    std::vector<int64_t> step_ns;
    for (int i = 0; i < 3; ++i) {
      const auto before = Clock::now();
      step(batches_[i]);
      step_ns.push_back(static_cast<int64_t>(seconds_since(before) * 1e9));
    }
    if (world_.rank != 0) return;
    const session::Build& build = *executable.build();
    train::print(stdout, train::make_run_report(build, executable.step_times(), step_ns, 4.26e12));
    if (world_.size == 1) return;
    train::print(stdout,
                 train::make_exchange_report(build.compilation.program, executable.step_times(),
                                             ir::LinkModel::nvlink()));
  }

  const Config& config_;
  comm::World& world_;
  const ir::Mesh mesh_;
  nn::Llama model_;
  optim::AdamW optimizer_;
  const session::CompileOptions options_;
  session::Session session_;
  const std::vector<std::vector<Literal>> batches_;
};

}  // namespace
}  // namespace monograph

int main(int argc, char** argv) try {
  using namespace monograph;
  const Config config = parse(argc, argv);
  const auto world = comm::join_world(comm::world_from_environment());
  Run(config, *world).train();
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 2;
}
