#include "comm/paced_communicator.h"

#include <gtest/gtest.h>
#include <time.h>

#include <vector>

#include "comm/threads/thread_world.h"

namespace monograph::comm {
namespace {

std::chrono::nanoseconds thread_cpu_time() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

TEST(PacedCommunicatorTest, ComputesTheTimeOfALink) {
  const Pace pace = {2e9, std::chrono::microseconds(50)};
  EXPECT_EQ(paced_time(pace, 4e6), std::chrono::microseconds(2050));
  EXPECT_EQ(paced_time(pace, 0), std::chrono::microseconds(50));
}

TEST(PacedCommunicatorTest, TakesAtLeastItsTimeAndLittleOfACore) {
  run_ranks(2, [](World& world) {
    const auto group = make_paced(world.all("all"), {1e7, std::chrono::microseconds(1000)});
    EXPECT_EQ(group->name(), "paced threads");
    std::vector<float> values(50'000, 1.0f);  // 200 kB: 20 ms and the latency
    const auto begin = std::chrono::steady_clock::now();
    const auto cpu_begin = thread_cpu_time();
    group->all_reduce(values.data(), 50'000, ElementType::kF32, ReduceOp::kSum, "gradients");
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(21));
    EXPECT_LT(thread_cpu_time() - cpu_begin, std::chrono::milliseconds(10));
    EXPECT_EQ(values, std::vector<float>(50'000, 2.0f));
  });
}

}  // namespace
}  // namespace monograph::comm
