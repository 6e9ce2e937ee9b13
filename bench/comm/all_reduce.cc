// Times all_reduce between the processes of one host, our shared memory beside Gloo, interleaved in
// one run. Each sum is checked.
// usage: monograph run --nproc-per-node 2 -- bench_all_reduce [MEGABYTES [ROUNDS]]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/process/process_world.h"

namespace monograph {
namespace {

struct Way {
  std::string name;
  comm::Communicator* communicator;
  float* data;
  std::vector<double> times = {};  // ms
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// One checked all_reduce; the slowest rank's ms.
double time_once(const Way& way, int64_t count, int num_ranks) {
  for (int64_t i = 0; i < count; ++i) {
    way.data[i] = static_cast<float>(way.communicator->rank() + 1 + i % 7);
  }
  way.communicator->barrier("ready");
  const auto begin = std::chrono::steady_clock::now();
  way.communicator->all_reduce(way.data, count, comm::ElementType::kF32, comm::ReduceOp::kSum,
                               "timed");
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  for (int64_t i = 0; i < count; ++i) {
    const auto expected = static_cast<float>(num_ranks * (num_ranks + 1) / 2 + num_ranks * (i % 7));
    if (way.data[i] != expected) throw_internal_error("{}: a wrong sum at {}", way.name, i);
  }
  double slowest = took.count();
  way.communicator->all_reduce(&slowest, 1, comm::ElementType::kF64, comm::ReduceOp::kMax, "time");
  return slowest;
}

int run(int64_t megabytes, int num_rounds) {
  auto options = comm::world_from_environment();
  if (options.store.world_size < 2) {
    throw_user_error(
        "there is one rank: run 'monograph run --nproc-per-node 2 -- build/src/bench_all_reduce'");
  }
  options.log = [](const std::string&) {};
  const auto world = comm::join_processes(options);
  std::vector<int> ranks;
  for (int rank = 0; rank < world->size; ++rank) ranks.push_back(rank);
  const auto shared = world->split_over(comm::Transport::kSharedMemory, ranks, "shared");
  const auto gloo = world->split_over(comm::Transport::kGloo, ranks, "gloo");
  const int64_t count = (megabytes << 20) / 4;
  const auto mapped = shared->allocate(count * 4);
  std::vector<float> own(static_cast<size_t>(count));
  std::vector<Way> ways = {
      {"shared memory, mapped buffers", shared.get(), static_cast<float*>(mapped.get())},
      {"shared memory, other buffers", shared.get(), own.data()},
      {"gloo", gloo.get(), own.data()}};
  for (int round = -1; round < num_rounds; ++round) {
    for (Way& way : ways) {
      const double time = time_once(way, count, world->size);
      if (round >= 0) way.times.push_back(time);  // the first one warms up
    }
  }
  if (world->rank != 0) return 0;
  const double of_gloo = median(ways[2].times);
  fmt::print("all_reduce of {} MB f32, {} processes, {} rounds, every sum checked\n", megabytes,
             world->size, num_rounds);
  for (const Way& way : ways) {
    fmt::print("{:<30} {:8.2f} ms (best {:.2f})   {:5.2f} times gloo\n", way.name,
               median(way.times), *std::min_element(way.times.begin(), way.times.end()),
               of_gloo / median(way.times));
  }
  return 0;
}

}  // namespace
}  // namespace monograph

int main(int argc, char** argv) {
  try {
    return monograph::run(argc > 1 ? std::atoll(argv[1]) : 64, argc > 2 ? std::atoi(argv[2]) : 9);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
