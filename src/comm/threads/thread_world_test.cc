#include "comm/threads/thread_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "base/error.h"

namespace monograph::comm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> random_values(int64_t count, int rank) {
  std::mt19937 generator(static_cast<uint32_t>(rank) + 17);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

std::vector<float> sum_in_order(int64_t count, int num_ranks) {
  std::vector<float> sum = random_values(count, 0);
  for (int rank = 1; rank < num_ranks; ++rank) {
    const std::vector<float> values = random_values(count, rank);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  return sum;
}

// The CommError that a run ends with.
CommError::Place place_of_failure(int size, const std::function<void(World&)>& body,
                                  std::string* message, Milliseconds timeout) {
  try {
    run_ranks(size, body, {timeout});
  } catch (const CommError& error) {
    *message = error.what();
    return error.place();
  }
  ADD_FAILURE() << "no CommError";
  return {};
}

class ThreadWorldTest : public testing::TestWithParam<int> {};

TEST_P(ThreadWorldTest, AllReduceSumsInOrderOfRank) {
  for (int64_t count : {0, 1, 7, 1000, 300'001}) {
    const std::vector<float> expected = sum_in_order(count, GetParam());
    run_ranks(GetParam(), [&](World& world) {
      const auto group = world.all("all");
      std::vector<float> values = random_values(count, world.rank);
      group->all_reduce(values.data(), count, ElementType::kF32, ReduceOp::kSum, "gradients");
      EXPECT_EQ(values, expected);
    });
  }
}

TEST_P(ThreadWorldTest, MovesBlocks) {
  const int size = GetParam();
  run_ranks(size, [&](World& world) {
    const auto group = world.all("all");
    const int rank = world.rank;
    std::vector<int32_t> mine = {rank, 10 * rank};
    std::vector<int32_t> all(2 * static_cast<size_t>(size));
    group->all_gather(mine.data(), all.data(), 2, ElementType::kI32, "gather");
    for (int r = 0; r < size; ++r) {
      EXPECT_EQ(all[2 * static_cast<size_t>(r)], r);
      EXPECT_EQ(all[2 * static_cast<size_t>(r) + 1], 10 * r);
    }
    std::vector<int64_t> from(static_cast<size_t>(size));
    std::vector<int64_t> to(static_cast<size_t>(size));
    for (int r = 0; r < size; ++r) from[static_cast<size_t>(r)] = 100 * rank + r;
    group->all_to_all(from.data(), to.data(), 1, ElementType::kI64, "exchange");
    for (int r = 0; r < size; ++r) EXPECT_EQ(to[static_cast<size_t>(r)], 100 * r + rank);
    int64_t block = 0;
    group->reduce_scatter(from.data(), &block, 1, ElementType::kI64, ReduceOp::kMax, "scatter");
    EXPECT_EQ(block, 100 * (size - 1) + rank);
    double value = rank == size - 1 ? 2.5 : 0;
    group->broadcast(&value, 1, ElementType::kF64, size - 1, "broadcast");
    EXPECT_EQ(value, 2.5);
    group->barrier("end");
  });
}

TEST_P(ThreadWorldTest, SendsAroundTheRing) {
  const int size = GetParam();
  if (size == 1) return;
  run_ranks(size, [&](World& world) {
    const auto group = world.all("all");
    const int64_t count = 5000;
    const std::vector<float> mine = random_values(count, world.rank);
    std::vector<float> other(count);
    const int next = (world.rank + 1) % size;
    const int previous = (world.rank + size - 1) % size;
    for (int round = 0; round < 3; ++round) {
      if (world.rank == 0) group->send(mine.data(), count, ElementType::kF32, next, "ring");
      group->recv(other.data(), count, ElementType::kF32, previous, "ring");
      if (world.rank != 0) group->send(mine.data(), count, ElementType::kF32, next, "ring");
      EXPECT_EQ(other, random_values(count, previous));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadWorldTest, testing::Values(1, 2, 3, 4, 7));

TEST(ThreadWorldFailureTest, OneFailingRankEndsAll) {
  std::mutex mutex;
  std::vector<std::vector<int>> blamed;
  const auto body = [&](World& world) {
    const auto group = world.all("all");
    if (world.rank == 2) throw_user_error("no data");
    float value = 0;
    try {
      group->all_reduce(&value, 1, ElementType::kF32, ReduceOp::kSum, "loss");
    } catch (const CommError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 2 failed: no data"));
      const std::scoped_lock lock(mutex);
      blamed.push_back(error.place().at_fault);
      throw;
    }
  };
  EXPECT_THROW(run_ranks(4, body), UserError);
  EXPECT_THAT(blamed, testing::SizeIs(3));
  EXPECT_THAT(blamed, testing::Each(ElementsAre(2)));
}

TEST(ThreadWorldFailureTest, NamesTheRankThatLeft) {
  std::string message;
  const auto place = place_of_failure(
      3,
      [](World& world) {
        const auto group = world.all("all");
        group->barrier("begin");
        if (world.rank == 1) return;
        group->barrier("end");
      },
      &message, Milliseconds(60'000));
  EXPECT_THAT(place.at_fault, ElementsAre(1));
  EXPECT_EQ(place.operation, "barrier");
  EXPECT_EQ(place.label, "end");
  EXPECT_EQ(place.sequence, 3);  // split is one as well
  EXPECT_THAT(message, HasSubstr("rank 1 left the job without this call"));
}

TEST(ThreadWorldFailureTest, NamesTheRankThatDoesNotCome) {
  std::atomic<int> num_failed = 0;
  std::string message;
  const auto place = place_of_failure(
      3,
      [&](World& world) {
        const auto group = world.all("all");
        if (world.rank == 1) {
          while (num_failed < 2) std::this_thread::sleep_for(Milliseconds(5));
          return;
        }
        try {
          group->barrier("step");
        } catch (const CommError&) {
          ++num_failed;
          throw;
        }
      },
      &message, Milliseconds(200));
  EXPECT_THAT(place.at_fault, ElementsAre(1));
  EXPECT_THAT(message, HasSubstr("rank 1 is alive but did not call it: its last was #1 barrier"));
}

TEST(ThreadWorldFailureTest, NamesTheCallThatDiffers) {
  std::string message;
  const auto place = place_of_failure(
      4,
      [](World& world) {
        const auto group = world.all("all");
        std::vector<float> values(8);
        group->all_reduce(values.data(), world.rank == 3 ? 7 : 8, ElementType::kF32, ReduceOp::kSum,
                          "bucket0");
      },
      &message, Milliseconds(60'000));
  EXPECT_THAT(place.at_fault, ElementsAre(3));
  EXPECT_THAT(message, HasSubstr("rank 3 called all_reduce sum of 7 f32 'bucket0'"));
  EXPECT_THAT(message, HasSubstr("ranks 0, 1, 2 called all_reduce sum of 8 f32 'bucket0'"));
}

TEST(ThreadWorldFailureTest, NamesTheSendThatDiffers) {
  std::string message;
  const auto place = place_of_failure(
      2,
      [](World& world) {
        const auto group = world.all("all");
        float value = 0;
        if (world.rank == 0) group->send(&value, 1, ElementType::kF32, 1, "activation");
        if (world.rank == 1) group->recv(&value, 2, ElementType::kI32, 0, "activation");
      },
      &message, Milliseconds(60'000));
  EXPECT_THAT(place.at_fault, ElementsAre(0));
  EXPECT_THAT(message, HasSubstr("rank 0 called send of 1 f32"));
}

TEST(ThreadWorldGroupTest, GroupsWorkSideBySide) {
  run_ranks(4, [](World& world) {
    const std::vector<int> row = world.rank < 2 ? std::vector{0, 1} : std::vector{2, 3};
    const std::vector<int> column = {world.rank % 2, world.rank % 2 + 2};
    const auto across = world.split(row, "row");
    const auto down = world.split(column, "column");
    int32_t value = world.rank;
    across->all_reduce(&value, 1, ElementType::kI32, ReduceOp::kSum, "row");
    EXPECT_EQ(value, world.rank < 2 ? 1 : 5);
    down->all_reduce(&value, 1, ElementType::kI32, ReduceOp::kSum, "column");
    EXPECT_EQ(value, 6);
    EXPECT_EQ(down->rank(), world.rank / 2);
  });
}

TEST(ThreadWorldGroupTest, AllocatesZeroedPages) {
  run_ranks(2, [](World& world) {
    const auto group = world.all("all");
    const std::shared_ptr<void> memory = group->allocate(10'000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 4096, 0u);
    EXPECT_EQ(static_cast<const char*>(memory.get())[9'999], 0);
    EXPECT_EQ(group->name(), "threads");
  });
}

TEST(ThreadWorldGroupTest, SharesTheStore) {
  run_ranks(3, [](World& world) {
    world.store->set("rank" + std::to_string(world.rank), "here");
    const std::vector<std::string> keys = {"rank0", "rank1", "rank2"};
    world.store->wait(keys, Milliseconds(60'000));
    world.store->add("count", 1);
    const auto group = world.all("all");
    EXPECT_EQ(world.store->get("count", Milliseconds(1000)), "3");
    EXPECT_THROW(world.store->get("nothing", Milliseconds(1)), CommError);
  });
}

}  // namespace
}  // namespace monograph::comm
