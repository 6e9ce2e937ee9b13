// Training on several ranks against training on one: gpt-nano, float32, ranks that are threads.
//
// Usage: bench_comm_data_parallel TEXT_FILE [STEPS]      prints a table; some minutes

#include <fmt/core.h>
#include <omp.h>

#include <cmath>
#include <cstdlib>

#include "comm/threads/thread_world.h"
#include "train/trainer.h"

namespace {

using namespace monograph;

std::vector<double> losses_on(int num_ranks, const train::TrainConfig& config) {
  std::vector<double> losses;
  comm::run_ranks(num_ranks, [&](comm::World& world) {
    omp_set_num_threads(num_ranks == 1 ? 2 : 1);
    train::TrainConfig own = config;
    own.mesh = runtime::make_mesh_context(ir::Mesh({{"data", num_ranks}}), world);
    EventLog events;
    const std::atomic<bool> interrupted = false;
    train::TrainResult result = train::train(own, events, stdout, interrupted);
    if (world.rank == 0) losses = std::move(result.losses);
  });
  return losses;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] / b[i] - 1));
  return largest;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_comm_data_parallel TEXT_FILE [STEPS]\n");
    return 2;
  }
  train::TrainConfig config;
  config.data_path = argv[1];
  config.num_steps = argc > 2 ? std::atoll(argv[2]) : 200;
  config.eval_every = 0;
  config.num_eval_batches = 1;
  config.sample_length = 0;
  config.is_quiet = true;
  fmt::print("gpt-nano, float32, {} steps\n\n", config.num_steps);
  fmt::print(
      "| ranks | batch | largest relative difference of a step's loss from one rank's | "
      "two runs bitwise equal |\n|--:|--:|--:|--|\n");
  for (const auto& [batch, ranks] : {std::pair{16, std::vector{2}}, {21, {3, 7}}}) {
    config.model.batch = batch;
    const std::vector<double> one = losses_on(1, config);
    for (const int num_ranks : ranks) {
      const std::vector<double> first = losses_on(num_ranks, config);
      const bool is_equal = first == losses_on(num_ranks, config);
      fmt::print("| {} | {} | {:.1e} | {} |\n", num_ranks, batch, largest_difference(first, one),
                 is_equal ? "yes" : "no");
      std::fflush(stdout);
    }
  }
  return 0;
}
