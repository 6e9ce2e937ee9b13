// Exposed communication of one rank of two, whose peer is always ready, and a communicator that
// sleeps as long as the link would take. So that only the schedule counts, nothing is added up.
// First data parallel training over links of three bandwidths, then data parallel and sharded
// training over a link that takes as long as the computation does: each step beside its bound,
// below which no order of the same work can come.
//
// Usage: bench_comm_overlap [STEPS]      prints two tables; takes about two minutes

#include <fmt/core.h>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "comm/paced_communicator.h"
#include "frontend/session/executable.h"
#include "frontend/session/monograph.h"
#include "train/exchange_report.h"

namespace {

using namespace monograph;

constexpr int kRanks = 2;
constexpr int64_t kBatch = 16, kBlock = 128;
constexpr std::chrono::microseconds kLatency(50);

ir::Literal tokens(int64_t seed) {
  return ir::Literal::from({DType::kI64, {kBatch, kBlock}}, [&](int64_t i) {
    return static_cast<double>((i * 31 + seed * 17 + i * i % 7) % 256);
  });
}

// A peer that has everything at once, and the same.
class ReadyPeer : public comm::Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return kRanks; }
  void all_reduce(void*, int64_t, comm::ElementType, comm::ReduceOp, std::string_view) override {}
  void broadcast(void*, int64_t, comm::ElementType, int, std::string_view) override {}
  void all_gather(const void* from, void* to, int64_t count, comm::ElementType type,
                  std::string_view) override {
    const auto bytes = static_cast<size_t>(count * comm::bytes_of(type));
    for (int r = 0; r < kRanks; ++r) {
      std::memcpy(static_cast<char*>(to) + static_cast<size_t>(r) * bytes, from, bytes);
    }
  }
  void reduce_scatter(const void* from, void* to, int64_t count, comm::ElementType type,
                      comm::ReduceOp, std::string_view) override {
    if (from != to) std::memcpy(to, from, static_cast<size_t>(count * comm::bytes_of(type)));
  }
  void all_to_all(const void*, void*, int64_t, comm::ElementType, std::string_view) override {}
  void send(const void*, int64_t, comm::ElementType, int, std::string_view) override {}
  void recv(void*, int64_t, comm::ElementType, int, std::string_view) override {}
  void barrier(std::string_view) override {}
  std::shared_ptr<void> allocate(int64_t bytes) override {
    return {std::calloc(static_cast<size_t>((bytes + 4095) / 4096), 4096), std::free};
  }
  std::string name() const override { return "ready peer"; }
};

// Milliseconds. No schedule is shorter than either lane's work, nor than its critical path: the
// loss waits for the forward pass and all that it gathers, of which something comes first;
// gradients and their exchange begin with the loss, and some exchange is last; updates wait for all
// gradients, for their norm.
struct Bound {
  double computation[3] = {}, gathers[3] = {}, communication = 0, exchanges = 0;  // by phase
  double first_gather = 0, last_exchange = 0;

  double critical_path() const {
    const auto forward = static_cast<size_t>(ir::Phase::kForward);
    const auto backward = static_cast<size_t>(ir::Phase::kBackward);
    const auto optimizer = static_cast<size_t>(ir::Phase::kOptimizer);
    return std::max(gathers[forward], first_gather + computation[forward]) +
           std::max(exchanges, computation[backward] + last_exchange) + computation[optimizer];
  }
  double longest() const { return std::max(communication, critical_path()); }
};

Bound bound_of(const ir::Program& program, std::span<const runtime::StepTime> times) {
  Bound bound;
  const auto lower = [](double& least, double ms) {
    least = least == 0 ? ms : std::min(least, ms);
  };
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const ir::Step& step = program.steps[i];
    if (std::holds_alternative<ir::WaitStep>(step.work) || times[i].num_runs == 0) continue;
    const double ms =
        static_cast<double>(times[i].total_ns) / 1e6 / static_cast<double>(times[i].num_runs);
    const auto phase = static_cast<size_t>(step.phase);
    const auto* collective = std::get_if<ir::CollectiveStep>(&step.work);
    if (collective == nullptr) {
      bound.computation[phase] += ms;
      continue;
    }
    bound.communication += ms;
    const bool is_gather = collective->kind == ir::CollectiveStep::Kind::kAllGather;
    (is_gather ? bound.gathers[phase] : bound.exchanges) += ms;
    lower(is_gather ? bound.first_gather : bound.last_exchange, ms);
  }
  return bound;
}

struct Plan {
  std::string_view name;
  std::string axis;
  std::optional<nn::ShardStrategy> strategy;  // nothing: copies of the model
};
const Plan kReplicate = {"replicate", "data", {}};

struct Measured {
  train::ExchangeReport report;
  Bound bound;
};

// `level`: comm_optimization_level.
Measured run(const Plan& plan, const comm::Pace& pace, int64_t level, int64_t num_steps) {
  const ir::Mesh mesh({{plan.axis, kRanks}});
  auto context = std::make_shared<runtime::MeshContext>();
  context->mesh = mesh;
  context->communicators[plan.axis] = comm::make_paced(std::make_unique<ReadyPeer>(), pace);
  nn::GPT model(
      {.vocab_size = 256, .block_size = kBlock, .n_layer = 6, .n_head = 4, .n_embd = 256});
  if (plan.strategy) nn::fully_shard(model, mesh, {.axis = plan.axis, .strategy = *plan.strategy});
  optim::AdamW optimizer(model.parameters(),
                         {.learning_rate = optim::Schedule::constant(1e-3), .max_norm = 1.0});
  CompileOptions options;
  options.comm_optimization_level = level;
  options.link = {.latency_s = std::chrono::duration<double>(pace.latency).count(),
                  .bytes_per_s = pace.bytes_per_second};
  session::Session session({.options = options, .mesh = context});
  auto step = session.compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = model.loss(x, y);
    optimizer.step(nn::replicate(loss.backward(), mesh, plan.axis));
    return loss;
  });
  const ir::Literal x = tokens(0), y = tokens(1);
  for (int i = 0; i < 3; ++i) step(x, y);  // compiles, warms up
  session::Executable& executable = step.executable({x.type(), y.type()});
  executable.measure_steps(true);
  for (int64_t i = 0; i < num_steps; ++i) step(x, y);
  const ir::Program& program = executable.build()->compilation.program;
  return {train::make_exchange_report(program, executable.step_times(), *options.link),
          bound_of(program, executable.step_times())};
}

void compare_bandwidths(int64_t num_steps) {
  fmt::print(
      "| bandwidth | level | collectives | computation ms | communication ms | exposed ms | of "
      "communication | predicted exposed ms | overlap |\n");
  fmt::print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const double gigabytes_per_s : {0.1, 0.3, 1.0}) {
    for (const int64_t level : {0, 1, 2}) {
      const comm::Pace pace = {gigabytes_per_s * 1e9, kLatency};
      const train::ExchangeReport r = run(kReplicate, pace, level, num_steps).report;
      fmt::print("| {} GB/s | {} | {} | {:.1f} | {:.2f} | {:.2f} | {:.1f} % | {:.2f} | {:.2f} |\n",
                 gigabytes_per_s, level, r.rows.size(), r.computation_ms, r.communication_ms,
                 r.exposed_ms, 100 * r.exposed_ms / r.communication_ms, r.predicted_exposed_ms,
                 r.overlap());
      std::fflush(stdout);
    }
  }
}

// The link is such that communication takes what computation was measured to take before.
void compare_with_bound(int64_t num_steps) {
  fmt::print(
      "\n| plan | level | collectives | computation ms | communication ms | critical path ms | "
      "exposed ms | step ms | bound ms | step / bound |\n");
  fmt::print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  const comm::Pace fast = {1e12, std::chrono::microseconds(0)};
  for (const Plan& plan : {kReplicate, Plan{"full shard", "fsdp", nn::ShardStrategy::kFullShard},
                           Plan{"shard-grad-op", "fsdp", nn::ShardStrategy::kShardGradOp}}) {
    const train::ExchangeReport alone = run(plan, fast, 2, num_steps).report;
    const double seconds =
        alone.computation_ms / 1e3 -
        static_cast<double>(alone.rows.size()) * std::chrono::duration<double>(kLatency).count();
    double sent = 0;  // as make_paced counts: half of two ranks' all_gather and reduce_scatter
    for (const train::ExchangeRow& row : alone.rows) {
      const bool is_all_reduce = row.name.find("all_reduce") != std::string::npos;
      sent += static_cast<double>(row.bytes) * (is_all_reduce ? 1 : 0.5);
    }
    for (const int64_t level : {0, 1, 2}) {
      const auto [r, bound] = run(plan, {sent / seconds, kLatency}, level, num_steps);
      const double step = r.computation_ms + r.exposed_ms;
      fmt::print(
          "| {} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.3f} |\n",
          plan.name, level, r.rows.size(), r.computation_ms, r.communication_ms,
          bound.critical_path(), r.exposed_ms, step, bound.longest(), step / bound.longest());
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t num_steps = argc > 1 ? std::atoll(argv[1]) : 20;
  if (num_steps < 1) {
    fmt::print(stderr, "error: STEPS '{}': give a number from 1 (default: 20)\n", argv[1]);
    return 2;
  }
  fmt::print("GPT of 6 layers, 256 wide, {} rows a rank; latency {} us\n\n", kBatch,
             kLatency.count());
  compare_bandwidths(num_steps);
  compare_with_bound(num_steps);
  return 0;
}
