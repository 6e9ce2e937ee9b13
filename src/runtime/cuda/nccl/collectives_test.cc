#include "runtime/cuda/collectives.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "comm/threads/thread_world.h"
#include "runtime/cuda/executor.h"

#include "comm/nccl/fake_nccl.h"
#include "comm/nccl/nccl_world.h"

// Programs with collectives on ranks that are threads, each with a fake GPU and a fake NCCL.
namespace monograph::runtime {
namespace {

using ir::CollectiveStep;
using ir::DType;
using ir::Literal;
using ir::Segment;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kRanks = 2;

// States of eight floats, each the subject of one collective along axis "data" in place or from its
// first to its second half.
ir::Program program_of(const std::vector<CollectiveStep::Kind>& kinds) {
  ir::Program program;
  for (const CollectiveStep::Kind kind : kinds) {
    int64_t& size = program.segment_bytes[static_cast<int>(Segment::kWeights)];
    const std::string name(kind_name(kind));
    program.states.push_back({name, {DType::kF32, {8}}, {Segment::kWeights, size}});
    CollectiveStep work;
    work.kind = kind;
    work.axis = "data";
    work.size = kRanks;
    work.root = 1;
    work.count = 2;
    work.from = work.to = {Segment::kWeights, size};
    const bool is_gather = kind == CollectiveStep::Kind::kAllGather;
    if (is_gather || kind == CollectiveStep::Kind::kReduceScatter) work.to.offset += 16;
    ir::Step start;
    start.work = work;
    start.lane = ir::Lane::kCommunication;
    start.name = name + " 0";
    ir::Step wait;
    wait.work = ir::WaitStep{work.from, work.to};
    wait.waits = {static_cast<int>(program.steps.size())};
    program.steps.push_back(start);
    program.steps.push_back(wait);
    size += 32;
  }
  return program;
}

// A rank's executor; `gpus`: as many GPUs as it has ranks.
struct Rank {
  Rank(comm::World& world, const ir::Program& program)
      : driver(comm::fake_nccl_driver(world.rank)),
        context(device::cuda::Context::create(0, driver)),
        mesh(make_mesh_context(ir::Mesh({{"data", world.size}}), world)),
        gpu_mesh(*mesh, context, comm::make_nccl_world(world, context, api)),
        executor(program, {}, context, {}, {}, &gpu_mesh) {
    for (const ir::ProgramTensor& state : program.states) {
      executor.write_state(state.name, Literal::from(state.type, [&](int64_t i) {
                             return static_cast<double>(i + 10 * world.rank);
                           }));
    }
  }
  std::vector<double> values(const std::string& name) const {
    const Literal literal = executor.read_state(name);
    std::vector<double> all;
    for (int64_t i = 0; i < literal.num_elements(); ++i) all.push_back(literal.get(i));
    return all;
  }

  const comm::NcclApi api = comm::fake_nccl_api();
  const device::cuda::Driver driver;
  const device::cuda::ContextPtr context;
  const std::shared_ptr<MeshContext> mesh;
  GpuMesh gpu_mesh;
  CudaExecutor executor;
};

TEST(CudaCollectives, RunInAStepAndInItsReplay) {
  using Kind = CollectiveStep::Kind;
  const ir::Program program =
      program_of({Kind::kAllReduce, Kind::kBroadcast, Kind::kAllGather, Kind::kReduceScatter});
  comm::run_ranks(kRanks, [&](comm::World& world) {
    Rank rank(world, program);
    const double own = 10.0 * world.rank;
    rank.executor.run();
    EXPECT_THAT(rank.values("all_reduce"),
                ElementsAre(10, 12, own + 2, own + 3, own + 4, own + 5, own + 6, own + 7));
    EXPECT_THAT(rank.values("broadcast"),
                ElementsAre(10, 11, own + 2, own + 3, own + 4, own + 5, own + 6, own + 7));
    EXPECT_THAT(rank.values("all_gather"),
                ElementsAre(own, own + 1, own + 2, own + 3, 0, 1, 10, 11));
    const int part = 2 * world.rank;
    EXPECT_THAT(rank.values("reduce_scatter"),
                ElementsAre(own, own + 1, own + 2, own + 3, 10 + 2 * part, 12 + 2 * part, own + 6,
                            own + 7));
    rank.executor.run();
    EXPECT_EQ(rank.executor.why_not_replayed(), "");
    rank.executor.run();
    EXPECT_EQ(rank.values("all_reduce")[0], 40);
    EXPECT_EQ(rank.values("all_gather")[7], 11);
    rank.executor.synchronize();
  });
}

TEST(CudaCollectives, AreMeasuredOnTheirStream) {
  const ir::Program program = program_of({CollectiveStep::Kind::kAllReduce});
  comm::run_ranks(kRanks, [&](comm::World& world) {
    Rank rank(world, program);
    rank.executor.measure_steps(true);
    rank.executor.run();
    ASSERT_EQ(rank.executor.step_times().size(), 2u);
    EXPECT_EQ(rank.executor.step_times()[0].total_ns, 1'000'000);  // as the fake says
    EXPECT_EQ(rank.executor.step_times()[1].num_runs, 1);
  });
}

// Rank 1 stops after two steps, of which the second is a replay.
TEST(CudaCollectives, AReplayWithoutAPeerEndsWithItsName) {
  const ir::Program program = program_of({CollectiveStep::Kind::kAllReduce});
  std::atomic<bool> has_ended = false;
  std::string message;
  const auto body = [&](comm::World& world) {
    Rank rank(world, program);
    for (int i = 0; i < 2; ++i) rank.executor.run();
    if (world.rank == 1) {
      while (!has_ended) std::this_thread::sleep_for(comm::Milliseconds(1));
      return;
    }
    try {
      rank.executor.run();
      rank.executor.synchronize();
    } catch (const CommError& error) {
      message = error.what();
      EXPECT_THAT(error.place().at_fault, ElementsAre(1));
    }
    has_ended = true;
    EXPECT_THROW(rank.executor.run(), CommError);
  };
  comm::run_ranks(kRanks, body, {.timeout = comm::Milliseconds(400)});
  EXPECT_THAT(message, HasSubstr("[all_reduce] #3 of group 'data@0 (NCCL)' failed in rank 0 "
                                 "(all_reduce sum of 2 f32 'all_reduce 0')"));
  EXPECT_THAT(message, HasSubstr("rank 1 is alive but did not call it: its last was #2"));
}

TEST(CudaCollectives, NeedAMesh) {
  const ir::Program program = program_of({CollectiveStep::Kind::kAllReduce});
  const device::cuda::Driver driver = comm::fake_nccl_driver(0);
  try {
    CudaExecutor(program, {}, device::cuda::Context::create(0, driver));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("over axis 'data' of 2 ranks, but has no mesh"));
  }
}

}  // namespace
}  // namespace monograph::runtime
