#include "comm/nccl/nccl_world.h"

#include <gmock/gmock.h>

#include <array>

#include "comm/nccl/fake_nccl.h"
#include "comm/threads/thread_world.h"
#include "device/cuda/availability.h"

namespace monograph::comm {
namespace {

using device::cuda::Context;
using device::cuda::DeviceMemory;
using device::cuda::Graph;
using device::cuda::Stream;
using testing::ElementsAre;
using testing::HasSubstr;

// One rank with a fake GPU and memory of eight floats.
struct Rank {
  explicit Rank(World& of) : world(of) {}

  World& world;
  const device::cuda::Driver driver = fake_nccl_driver(world.rank);
  const NcclApi api = fake_nccl_api();
  const device::cuda::ContextPtr context = Context::create(0, driver);
  const Stream stream{context};
  const DeviceMemory memory{context, 8 * sizeof(float)};
  const std::unique_ptr<GpuWorld> gpus = make_nccl_world(world, context, api);

  float* data() const { return reinterpret_cast<float*>(memory.data()); }
  CUdeviceptr at(int element) const { return memory.address() + element * sizeof(float); }
  GpuGroup& all() const {
    std::vector<int> ranks;
    for (int r = 0; r < world.size; ++r) ranks.push_back(r);
    return gpus->split(ranks, "data");
  }
  void run(GpuGroup& group, const Call& call, int from, int to) const {
    group.expect(std::make_shared<std::vector<Call>>(1, call));
    group.enqueue(call, at(from), at(to), stream);
  }
};

Call call_of(Operation operation, int64_t count, const char* label = "bucket0") {
  Call call = make_call(operation, count, ElementType::kF32, label);
  if (operation == Operation::kBroadcast) call.peer = 1;
  return call;
}

// As run_ranks; what the first rank to fail threw.
CommError failure_of(int size, const std::function<void(Rank&)>& body, Milliseconds timeout) {
  try {
    run_ranks(size,
              [&](World& world) {
                Rank rank(world);
                body(rank);
              },
              {.timeout = timeout});
  } catch (const CommError& error) {
    return error;
  }
  ADD_FAILURE() << "no rank failed";
  return CommError("");
}

TEST(NcclWorld, RunsCollectives) {
  run_ranks(3, [](World& world) {
    Rank rank(world);
    GpuGroup& group = rank.all();
    EXPECT_EQ(group.size(), 3);
    const auto mine = static_cast<float>(world.rank + 1);
    std::fill_n(rank.data(), 8, mine);
    rank.run(group, call_of(Operation::kAllReduce, 2), 0, 0);
    EXPECT_EQ(rank.data()[1], 6);
    EXPECT_EQ(rank.data()[2], mine);
    rank.run(group, call_of(Operation::kBroadcast, 1), 2, 2);
    EXPECT_EQ(rank.data()[2], 2);
    rank.run(group, call_of(Operation::kAllGather, 1), 3, 4);
    EXPECT_THAT(std::vector<float>(rank.data() + 4, rank.data() + 7), ElementsAre(1, 2, 3));
    rank.run(group, call_of(Operation::kReduceScatter, 1), 4, 7);
    EXPECT_EQ(rank.data()[7], 3 * mine);
    rank.gpus->check();
  });
}

TEST(NcclWorld, CountsWhatAGraphReplays) {
  run_ranks(2, [](World& world) {
    Rank rank(world);
    GpuGroup& group = rank.all();
    const auto calls = std::make_shared<std::vector<Call>>();
    calls->push_back(call_of(Operation::kAllReduce, 1, "first"));
    calls->push_back(call_of(Operation::kAllReduce, 2, "second"));
    const Graph graph(rank.stream, [&] {
      group.enqueue((*calls)[0], rank.at(0), rank.at(0), rank.stream);
      group.enqueue((*calls)[1], rank.at(2), rank.at(2), rank.stream);
    });
    std::fill_n(rank.data(), 8, 1.0F);
    for (int i = 0; i < 3; ++i) {
      group.expect(calls);
      graph.launch(rank.stream);
    }
    EXPECT_EQ(rank.data()[0], 8);
    // The thread that watches sees it within milliseconds.
    const auto& recorder = *world.job().recorder;
    const auto is_noted = [&] {
      const auto progress = recorder.progress("data (NCCL)");
      return progress && progress->call.sequence == 6 && progress->is_done;
    };
    while (!is_noted()) std::this_thread::sleep_for(Milliseconds(1));
    EXPECT_EQ(recorder.progress("data (NCCL)")->call.label_text(), "second");
  });
}

TEST(NcclWorld, GroupsOfAMeshWorkSideBySide) {
  run_ranks(4, [](World& world) {
    Rank rank(world);
    const std::vector<int> row = world.rank < 2 ? std::vector{0, 1} : std::vector{2, 3};
    const std::vector<int> column = {world.rank % 2, world.rank % 2 + 2};
    GpuGroup& across = rank.gpus->split(row, world.rank < 2 ? "row@0" : "row@2");
    GpuGroup& down = rank.gpus->split(column, "column");
    rank.data()[0] = static_cast<float>(world.rank);
    rank.run(across, call_of(Operation::kAllReduce, 1), 0, 0);
    EXPECT_EQ(rank.data()[0], world.rank < 2 ? 1 : 5);
    rank.run(down, call_of(Operation::kAllReduce, 1), 0, 0);
    EXPECT_EQ(rank.data()[0], 6);
  });
}

TEST(NcclWorld, ReleasesItsCommunicators) {
  const int destroyed = fake_nccl().num_destroyed, aborted = fake_nccl().num_aborted;
  run_ranks(2, [](World& world) {
    Rank rank(world);
    rank.all();
  });
  EXPECT_EQ(fake_nccl().num_destroyed, destroyed + 2);
  EXPECT_EQ(fake_nccl().num_aborted, aborted);
}

TEST(NcclWorld, RefusesTwoRanksOnOneGpu) {
  const auto body = [](World& world) {
    const device::cuda::Driver driver = fake_nccl_driver(world.rank / 2);
    const NcclApi api = fake_nccl_api();
    make_nccl_world(world, Context::create(0, driver), api);
  };
  try {
    run_ranks(3, body);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("ranks 0, 1 have the same GPU (Fake GPU, 0100"));
    EXPECT_THAT(error.what(), HasSubstr("CUDA_VISIBLE_DEVICES"));
  }
}

// Rank 1 does not come to the second collective; `hang` is how rank 0 makes it.
CommError failure_without_rank_1(const std::function<void(Rank&, GpuGroup&)>& hang) {
  std::atomic<bool> has_ended = false;
  return failure_of(
      2,
      [&](Rank& rank) {
        GpuGroup& group = rank.all();
        rank.run(group, call_of(Operation::kAllReduce, 1, "bucket0"), 0, 0);
        if (rank.world.rank == 1) {
          while (!has_ended) std::this_thread::sleep_for(Milliseconds(1));
          return;
        }
        try {
          hang(rank, group);
        } catch (const CommError&) {
          has_ended = true;
          throw;
        }
      },
      Milliseconds(400));
}

TEST(NcclWorld, TimeoutOfAQueuedCallNamesTheRankThatDoesNotCome) {
  const CommError error = failure_without_rank_1([](Rank& rank, GpuGroup& group) {
    rank.run(group, call_of(Operation::kAllReduce, 5, "bucket1"), 0, 0);
  });
  EXPECT_THAT(error.place().at_fault, ElementsAre(1));
  EXPECT_EQ(error.place().label, "bucket1");
  EXPECT_THAT(error.what(), HasSubstr("all_reduce sum of 5 f32 'bucket1'"));
  EXPECT_THAT(error.what(), HasSubstr("rank 1 is alive but did not call it: its last was #1"));
}

// The host only launches and waits for the GPU: the thread that watches must end the wait.
TEST(NcclWorld, TimeoutOfAReplayedCallEndsTheWaitForTheGpu) {
  const int aborted = fake_nccl().num_aborted;
  const CommError error = failure_without_rank_1([](Rank& rank, GpuGroup& group) {
    const auto calls = std::make_shared<std::vector<Call>>();
    calls->push_back(call_of(Operation::kAllReduce, 3, "bucket1"));
    const Graph graph(rank.stream,
                      [&] { group.enqueue(calls->front(), rank.at(0), rank.at(0), rank.stream); });
    group.expect(calls);
    graph.launch(rank.stream);
    rank.gpus->check();
  });
  EXPECT_THAT(error.place().at_fault, ElementsAre(1));
  EXPECT_EQ(error.place().sequence, 2);
  EXPECT_EQ(error.place().operation, "all_reduce");
  EXPECT_THAT(error.what(), HasSubstr("[all_reduce] #2 of group 'data (NCCL)' failed in rank 0 "
                                      "(all_reduce sum of 3 f32 'bucket1')"));
  EXPECT_GE(fake_nccl().num_aborted, aborted + 1);
}

TEST(NcclWorld, AFailureElsewhereEndsTheWaitForTheGpu) {
  std::vector<std::string> messages(3);
  const auto body = [&](World& world) {
    Rank rank(world);
    if (world.rank == 2) {
      rank.all();
      throw_user_error("no data");
    }
    try {
      GpuGroup& group = rank.all();
      rank.run(group, call_of(Operation::kAllReduce, 1), 0, 0);
    } catch (const CommError& error) {
      messages[static_cast<size_t>(world.rank)] = error.what();
      EXPECT_THROW(rank.gpus->check(), CommError);
      throw;
    }
  };
  EXPECT_THROW(run_ranks(3, body), UserError);
  EXPECT_THAT(messages[0], HasSubstr("rank 2 failed: no data"));
  EXPECT_THAT(messages[1], HasSubstr("rank 2 failed: no data"));
}

TEST(NcclWorld, AnErrorOfNcclIsSaidInItsWords) {
  fake_nccl().result_of_init = ncclSystemError;
  const CommError error = failure_of(
      2, [](Rank& rank) { rank.all(); }, Milliseconds(2000));
  fake_nccl().result_of_init = ncclSuccess;
  EXPECT_EQ(error.place().label, "split");
  EXPECT_THAT(error.what(), HasSubstr("NCCL 2.28.9: an error as planned: of the fake"));
}

TEST(NcclWorld, AnAsynchronousErrorIsFound) {
  const CommError error = failure_of(
      2,
      [](Rank& rank) {
        GpuGroup& group = rank.all();
        rank.run(group, call_of(Operation::kAllReduce, 1), 0, 0);
        fake_nccl().rank_with_error = 0;
        while (true) {
          std::this_thread::sleep_for(Milliseconds(1));
          rank.gpus->check();
        }
      },
      Milliseconds(2000));
  fake_nccl().rank_with_error = -1;
  EXPECT_EQ(error.place().label, "bucket0");
  EXPECT_EQ(error.place().sequence, 1);
  EXPECT_THAT(error.what(), HasSubstr("NCCL 2.28.9: an error as planned"));
}

// The real thing, where there is a GPU: one rank, call by call and as a graph.
TEST(NcclOnGpu, OneRankReducesAndIsCounted) {
  if (const std::string why = device::cuda::why_no_gpu(); !why.empty()) {
    GTEST_SKIP() << "needs a GPU: " << why;
  }
  const auto world = make_single_world();
  const device::cuda::ContextPtr context = Context::create();
  const Stream stream(context);
  const DeviceMemory memory(context, 2 * sizeof(float));
  const std::unique_ptr<GpuWorld> gpus = make_nccl_world(*world, context);
  GpuGroup& group = gpus->split(std::vector{0}, "data");
  const auto calls =
      std::make_shared<std::vector<Call>>(1, call_of(Operation::kAllReduce, 1, "bucket0"));
  const auto enqueue = [&] {
    group.enqueue(calls->front(), memory.address(), memory.address() + 4, stream);
  };
  const std::array<float, 2> given = {3, 4};
  stream.copy_to_device(memory.address(), given.data(), sizeof given);
  group.expect(calls);
  enqueue();
  stream.synchronize();
  std::array<float, 2> result = {};
  stream.copy_to_host(result.data(), memory.address(), sizeof result);
  stream.synchronize();
  EXPECT_EQ(result[1], 3);
  {
    const Graph graph(stream, enqueue);
    for (int i = 0; i < 2; ++i) {
      group.expect(calls);
      graph.launch(stream);
    }
    stream.synchronize();
  }
  std::this_thread::sleep_for(Milliseconds(50));  // the thread that watches looks each 10 ms
  const auto progress = world->job().recorder->progress("data (NCCL)");
  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->call.sequence, 3);
  EXPECT_TRUE(progress->is_done);
  gpus->check();
}

TEST(NcclOnGpu, TwoRanksOnOneGpuAreRefused) {
  if (const std::string why = device::cuda::why_no_gpu(); !why.empty()) {
    GTEST_SKIP() << "needs a GPU: " << why;
  }
  EXPECT_THROW(run_ranks(2, [](World& world) { make_nccl_world(world, Context::create()); }),
               UserError);
}

// The library itself, where it is; without a GPU it gives an id and no more.
TEST(NcclApiTest, OpensTheLibrary) {
  try {
    nccl();
  } catch (const UserError& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_THAT(version_of(nccl()), testing::StartsWith("2."));
}

}  // namespace
}  // namespace monograph::comm
