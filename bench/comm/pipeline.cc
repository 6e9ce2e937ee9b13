// How long the ranks of a pipeline stand still, measured beside theory: a small GPT compiled for
// each rank, threads for ranks, and at the first kernel of each frame a sleep, which takes no core,
// for as long as the frame would take on a large model: as long for the forward, the gradients of
// inputs and those of weights. With TEXT also how far the losses of 50 steps are from one rank's.
//
// Usage: bench_comm_pipeline [MILLISECONDS [TEXT]]      of a frame, 50; prints tables, for some
// minutes

#include <fmt/core.h>
#include <omp.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

#include "comm/threads/thread_world.h"
#include "frontend/session/executable.h"
#include "frontend/session/monograph.h"
#include "ops/collective/transfer.h"
#include "train/trainer.h"
#include "verify/explain/step_nodes.h"

namespace {

using namespace monograph;
using Clock = std::chrono::steady_clock;
using Schedule = nn::PipelineSchedule;
using FrameKind = analysis::Frame::Kind;

std::chrono::milliseconds unit{50};  // of a frame
constexpr int64_t kBlock = 8;
constexpr int kRuns = 3;

struct Case {
  Schedule schedule;
  int64_t ranks, micro_batches, chunks = 1;
  double theory;  // idle time over all time
};

// The step of one rank, whose k-th kernel begins with a sleep of so many units.
struct Stage {
  const session::Build* build = nullptr;
  std::vector<int> units;  // by launch
};

// Frames in the order of the Program; those of a schedule that follow each other without a transfer
// between them are one.
std::vector<int> sleeps_of(const compiler::Compilation& compilation,
                           const std::vector<analysis::Frame>& order, int last_stage,
                           bool is_split) {
  const auto units_of = [&](const analysis::Frame& frame) {
    return frame.kind == FrameKind::kBackward && !(is_split && frame.stage > 0) ? 2 : 1;
  };
  std::vector<int> units;
  const auto nodes = verify::step_nodes(compilation);
  std::set<int> transfers;  // their frames: a kernel there makes what a recv begins with
  for (const auto& each : nodes) {
    if (ops::is_transfer(*each.node)) transfers.insert(each.node->provenance().frame);
  }
  int last_frame = 0;
  size_t next = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ir::Step& step = compilation.program.steps[i];
    if (!std::holds_alternative<ir::KernelStep>(step.work)) continue;
    units.push_back(0);
    const int frame = nodes[i].node->provenance().frame;
    // What is made again has the frame in which it was made first.
    if (frame <= last_frame || transfers.contains(frame) || next == order.size()) continue;
    last_frame = frame;
    units.back() = units_of(order[next]);
    const bool is_joined = next + 1 < order.size() && order[next].kind == FrameKind::kForward &&
                           order[next + 1].kind == FrameKind::kBackward &&
                           order[next].stage == last_stage &&
                           order[next].stage == order[next + 1].stage &&
                           order[next].micro_batch == order[next + 1].micro_batch;
    if (is_joined) units.back() += units_of(order[++next]);
    ++next;
  }
  return units;
}

std::vector<runtime::Kernel> sleeping(const std::vector<runtime::Kernel>& kernels,
                                      const std::vector<int>& units, size_t& launch) {
  std::vector<runtime::Kernel> result;
  for (const runtime::Kernel& kernel : kernels) {
    result.push_back([&, kernel](void* const* arguments) {
      const int count = units[launch++ % units.size()];
      if (count > 0) std::this_thread::sleep_for(unit * count);
      kernel(arguments);
    });
  }
  return result;
}

// Idle time over all time, least of a few steps.
double measure(const Case& what, double& predicted) {
  const ir::Mesh mesh({{"pp", what.ranks}});
  double least = 1;
  std::mutex mutex;
  comm::run_ranks(static_cast<int>(what.ranks), [&](comm::World& world) {
    omp_set_num_threads(1);
    const auto context = runtime::make_mesh_context(mesh, world);
    nn::GPT model({.vocab_size = 16,
                   .block_size = kBlock,
                   .n_layer = what.ranks * what.chunks,
                   .n_head = 2,
                   .n_embd = 8});
    nn::pipeline(
        model, mesh,
        {.micro_batches = what.micro_batches, .schedule = what.schedule, .chunks = what.chunks});
    optim::AdamW optimizer(model.parameters(),
                           {.learning_rate = optim::Schedule::constant(1e-3), .max_norm = 1.0});
    session::Session session({.mesh = context});
    auto step = session.compile([&](const Tensor& x, const Tensor& y) {
      const auto [loss, gradients] =
          trace::accumulate(what.micro_batches, {x, y},
                            [&](const auto& slice) { return model.loss(slice[0], slice[1]); });
      optimizer.step(gradients);
      return loss;
    });
    const ir::TensorType input{DType::kI64, {what.micro_batches, kBlock}};
    const session::Build& build = *step.executable({input, input}).build();
    const analysis::PipelineReport& report = *step.trace_record({input, input}).pipeline;
    const auto orders = analysis::training_frames(report.pipeline);
    const std::vector<int> units =
        sleeps_of(build.compilation, orders[static_cast<size_t>(world.rank)],
                  report.pipeline.num_stages() - 1, report.pipeline.splits_backward());
    int busy = 0;
    for (const int each : units) busy += each;
    size_t launch = 0;
    runtime::Executor executor(
        build.compilation.program,
        sleeping(runtime::as_kernels(build.kernels.functions), units, launch), {}, context.get());
    executor.run();
    for (int i = 0; i < kRuns; ++i) {
      context->communicators.at("pp")->barrier("begin");
      const auto start = Clock::now();
      executor.run();
      context->communicators.at("pp")->barrier("end");
      const double total = std::chrono::duration<double>(Clock::now() - start).count();
      const double idle = 1 - busy * std::chrono::duration<double>(unit).count() / total;
      const std::lock_guard lock(mutex);
      predicted = report.equal_bubble_share;
      least = std::min(least, idle);
    }
    check(busy == 3 * what.micro_batches * what.chunks, "{} units of {} found", busy,
          3 * what.micro_batches * what.chunks);
  });
  return least;
}

void print_bubbles() {
  fmt::print(
      "| schedule | ranks | micro-batches | theory % | predicted % | measured % | step longer by "
      "|\n"
      "|---|--:|--:|--:|--:|--:|--:|\n");
  const auto share = [](double p, double m, double of) { return (p - 1) / (of * m + p - 1); };
  const Case cases[] = {{Schedule::k1F1B, 2, 8, 1, share(2, 8, 1)},
                        {Schedule::k1F1B, 4, 8, 1, share(4, 8, 1)},
                        {Schedule::kInterleaved, 2, 8, 2, share(2, 8, 2)},
                        {Schedule::kInterleaved, 4, 8, 2, share(4, 8, 2)},
                        {Schedule::kZeroBubble, 2, 8, 1, share(2, 8, 3)},
                        {Schedule::kZeroBubble, 4, 8, 1, share(4, 8, 3)}};
  for (const Case& each : cases) {
    double predicted = 0;
    const double measured = measure(each, predicted);
    fmt::print("| {}{} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {:+.1f} % |\n",
               ir::schedule_name(each.schedule),
               each.chunks > 1 ? fmt::format(", {} stages a rank", each.chunks) : "", each.ranks,
               each.micro_batches, 100 * each.theory, 100 * predicted, 100 * measured,
               100 * ((1 - each.theory) / (1 - measured) - 1));
    std::fflush(stdout);
  }
}

// --- losses --------------------------------------------------------------------------------------

struct Plan {
  std::vector<ir::Mesh::Axis> axes;
  Schedule schedule = Schedule::k1F1B;
  int64_t chunks = 2;
};

std::vector<double> losses_of(const char* text, const std::string& model, const Plan& plan) {
  train::TrainConfig config;
  config.model = {.name = model, .num_layers = 8, .block = 32, .batch = 32};
  config.data_path = text;
  config.num_steps = 50;
  config.num_micro_batches = 8;
  config.eval_every = 0;
  config.num_eval_batches = 1;
  config.sample_length = 0;
  config.is_quiet = true;
  config.pipeline = {.schedule = plan.schedule, .chunks = plan.chunks};
  const ir::Mesh mesh(plan.axes);
  std::vector<double> losses;
  comm::run_ranks(static_cast<int>(mesh.num_ranks()), [&](comm::World& world) {
    omp_set_num_threads(1);
    EventLog events;
    const std::atomic<bool> interrupted = false;
    train::TrainConfig own = config;
    if (mesh.num_ranks() > 1) own.mesh = runtime::make_mesh_context(mesh, world);
    const train::TrainResult result = train::train(own, events, stdout, interrupted);
    if (world.rank == 0) losses = result.losses;
  });
  return losses;
}

void print_losses(const char* text) {
  fmt::print(
      "\n| model | mesh | schedule | largest relative difference of a step's loss |\n"
      "|---|---|---|--:|\n");
  const Plan plans[] = {{{{"pp", 2}}},
                        {{{"pp", 4}}},
                        {{{"pp", 2}}, Schedule::kInterleaved},
                        {{{"pp", 4}}, Schedule::kInterleaved},
                        {{{"pp", 2}}, Schedule::kZeroBubble},
                        {{{"pp", 4}}, Schedule::kZeroBubble},
                        {{{"dp", 2}, {"pp", 2}}},
                        {{{"dp", 2}, {"pp", 4}}, Schedule::kZeroBubble},
                        {{{"pp", 2}, {"tp", 2}}},
                        {{{"dp", 2}, {"pp", 2}, {"tp", 2}}, Schedule::kInterleaved}};
  for (const char* model : {"gpt-nano", "llama-nano"}) {
    const std::vector<double> one = losses_of(text, model, {{{"pp", 1}}});
    for (const Plan& plan : plans) {
      const std::vector<double> all = losses_of(text, model, plan);
      double largest = 0;
      for (size_t i = 0; i < one.size(); ++i) {
        largest = std::max(largest, std::abs(all[i] / one[i] - 1));
      }
      fmt::print("| {} | {} | {} | {:.1e} |\n", model, ir::Mesh(plan.axes).str(),
                 ir::schedule_name(plan.schedule), largest);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) unit = std::chrono::milliseconds(std::atoi(argv[1]));
  print_bubbles();
  if (argc > 2) print_losses(argv[2]);
}
