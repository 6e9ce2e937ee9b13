// Exposed communication of data parallel training over links of three bandwidths: one rank of two,
// whose peer is always ready, and a communicator that sleeps as long as the link would take. So
// that only the schedule counts, nothing is added up.
//
// Usage: bench_comm_overlap [STEPS]      prints a table; takes about a minute

#include <fmt/core.h>
#include <chrono>
#include <cstdlib>

#include "comm/paced_communicator.h"
#include "frontend/session/executable.h"
#include "frontend/session/monograph.h"
#include "train/exchange_report.h"

namespace {

using namespace monograph;

constexpr int kRanks = 2;
constexpr int64_t kBatch = 16, kBlock = 128;

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
  void all_gather(const void*, void*, int64_t, comm::ElementType, std::string_view) override {}
  void reduce_scatter(const void*, void*, int64_t, comm::ElementType, comm::ReduceOp,
                      std::string_view) override {}
  void all_to_all(const void*, void*, int64_t, comm::ElementType, std::string_view) override {}
  void send(const void*, int64_t, comm::ElementType, int, std::string_view) override {}
  void recv(void*, int64_t, comm::ElementType, int, std::string_view) override {}
  void barrier(std::string_view) override {}
  std::shared_ptr<void> allocate(int64_t bytes) override {
    return {std::calloc(static_cast<size_t>((bytes + 4095) / 4096), 4096), std::free};
  }
  std::string name() const override { return "ready peer"; }
};

// `level`: comm_optimization_level.
train::ExchangeReport run(const comm::Pace& pace, int64_t level, int64_t num_steps) {
  const ir::Mesh mesh({{"data", kRanks}});
  auto context = std::make_shared<runtime::MeshContext>();
  context->mesh = mesh;
  context->communicators["data"] = comm::make_paced(std::make_unique<ReadyPeer>(), pace);
  nn::GPT model(
      {.vocab_size = 256, .block_size = kBlock, .n_layer = 6, .n_head = 4, .n_embd = 256});
  optim::AdamW optimizer(model.parameters(),
                         {.learning_rate = optim::Schedule::constant(1e-3), .max_norm = 1.0});
  CompileOptions options;
  options.comm_optimization_level = level;
  options.link = {.latency_s = std::chrono::duration<double>(pace.latency).count(),
                  .bytes_per_s = pace.bytes_per_second};
  session::Session session({.options = options, .mesh = context});
  auto step = session.compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = model.loss(x, y);
    optimizer.step(nn::replicate(loss.backward(), mesh));
    return loss;
  });
  const ir::Literal x = tokens(0), y = tokens(1);
  for (int i = 0; i < 3; ++i) step(x, y);  // compiles, warms up
  session::Executable& executable = step.executable({x.type(), y.type()});
  executable.measure_steps(true);
  for (int64_t i = 0; i < num_steps; ++i) step(x, y);
  return train::make_exchange_report(executable.build()->compilation.program,
                                     executable.step_times(), *options.link);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t num_steps = argc > 1 ? std::atoll(argv[1]) : 20;
  if (num_steps < 1) {
    fmt::print(stderr, "error: STEPS '{}': give a number from 1 (default: 20)\n", argv[1]);
    return 2;
  }
  fmt::print("GPT of 6 layers, 256 wide, {} rows a rank; latency 50 us\n\n", kBatch);
  fmt::print(
      "| bandwidth | level | buckets | computation ms | communication ms | exposed ms | of "
      "communication | predicted exposed ms | overlap |\n");
  fmt::print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const double gigabytes_per_s : {0.1, 0.3, 1.0}) {
    for (const int64_t level : {0, 1, 2}) {
      const comm::Pace pace = {gigabytes_per_s * 1e9, std::chrono::microseconds(50)};
      const train::ExchangeReport r = run(pace, level, num_steps);
      fmt::print("| {} GB/s | {} | {} | {:.1f} | {:.2f} | {:.2f} | {:.1f} % | {:.2f} | {:.2f} |\n",
                 gigabytes_per_s, level, r.rows.size(), r.computation_ms, r.communication_ms,
                 r.exposed_ms, 100 * r.exposed_ms / r.communication_ms, r.predicted_exposed_ms,
                 r.overlap());
      std::fflush(stdout);
    }
  }
  return 0;
}
