// What ranks compare before the first step, in sessions of ranks that are threads of this process.
#include <gmock/gmock.h>
#include <omp.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "comm/threads/thread_world.h"
#include "frontend/session/monograph.h"

namespace monograph::session {
namespace {

using ::testing::HasSubstr;

ir::Mesh data_mesh(int64_t size) {
  return ir::Mesh({{"data", size}});
}

ir::Literal ones(int64_t count) {
  return ir::Literal::from({ir::DType::kF32, {count}}, [](int64_t) { return 1; });
}

// What is planted in the step of rank 1.
enum class Planted { kNothing, kExtraNode, kOtherOrder };

// What each rank's error says, within 10 seconds.
std::vector<std::string> disagreement(const CompileOptions& odd_options, Planted planted) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::string> messages(3);
  std::vector<int> ran(3, 0);
  comm::run_ranks(3, [&](comm::World& world) {
    omp_set_num_threads(1);
    const ir::Mesh mesh = data_mesh(3);
    const bool is_odd = world.rank == 1;
    Session session({.options = is_odd ? odd_options : CompileOptions(),
                     .mesh = runtime::make_mesh_context(mesh, world)});
    Compiled step = session.compile([&](const Tensor& x) {
      const Tensor e = exp(x);
      if (is_odd && planted == Planted::kOtherOrder) {
        const Tensor all = trace::all_gather(e, mesh, "data");
        return sum(all) * trace::all_reduce(e, mesh, "data");
      }
      const Tensor y = trace::all_reduce(e, mesh, "data");
      const Tensor z = sum(trace::all_gather(e, mesh, "data")) * y;
      return is_odd && planted == Planted::kExtraNode ? z + 1.0 : z;
    });
    try {
      step(ones(4));
      ran[world.rank] = 1;
    } catch (const UserError& error) {
      messages[world.rank] = error.what();
    }
  });
  EXPECT_THAT(ran, testing::Each(0));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  return messages;
}

TEST(Agreement, AnOptionThatDiffersStopsAllRanks) {
  CompileOptions odd;
  odd.comm_optimization_level = 0;
  for (const std::string& message : disagreement(odd, Planted::kNothing)) {
    EXPECT_THAT(message, HasSubstr("ranks 0, 2 against rank 1:"));
    EXPECT_THAT(message, HasSubstr("option comm_optimization_level: 2 against 0"));
  }
}

TEST(Agreement, AnExtraNodeIsShownFromBothSides) {
  for (const std::string& message : disagreement({}, Planted::kExtraNode)) {
    EXPECT_THAT(message, HasSubstr("ranks 0, 2 against rank 1:"));
    EXPECT_THAT(message, HasSubstr("graph hash: "));
    EXPECT_THAT(message, HasSubstr("full"));
  }
}

TEST(Agreement, CollectivesInAnotherOrderAreShownFromBothSides) {
  for (const std::string& message : disagreement({}, Planted::kOtherOrder)) {
    EXPECT_THAT(message, HasSubstr("ranks 0, 2 against rank 1:"));
    EXPECT_THAT(message, HasSubstr("collective 1: all_reduce over data of 3: 4 f32 sum against "
                                   "all_gather over data of 3: 4 f32"));
  }
}

// Doubles what it gets and adds up over the ranks.
Compiled doubled_sum(Session& session, const ir::Mesh& mesh) {
  return session.compile([&](const Tensor& x) { return trace::all_reduce(x * 2.0, mesh, "data"); });
}

TEST(Agreement, ARecompileTakesEffectInTheSameStepOnAllRanksHoweverSlowOneIs) {
  comm::run_ranks(4, [&](comm::World& world) {
    omp_set_num_threads(1);
    const ir::Mesh mesh = data_mesh(4);
    Session session({.mesh = runtime::make_mesh_context(mesh, world)});
    Compiled step = doubled_sum(session, mesh);
    for (const int64_t count : {3, 3, 5, 5, 3}) {
      if (world.rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const ir::Literal sum = step(ones(count)).values[0];
      EXPECT_EQ(sum.num_elements(), count);
      EXPECT_EQ(sum.get(count - 1), 8);
    }
    EXPECT_EQ(step.num_signatures(), 2);
  });
}

// One rank alone meets a new shape: it waits for the others' agreement, they wait for its part.
TEST(Agreement, ARankThatRecompilesAloneIsNamed) {
  std::mutex mutex;
  std::vector<std::string> messages;
  const auto body = [&](comm::World& world) {
    omp_set_num_threads(1);
    const ir::Mesh mesh = data_mesh(3);
    const auto context = runtime::make_mesh_context(mesh, world);
    Session session({.mesh = context});
    Compiled step = doubled_sum(session, mesh);
    step(ones(3));
    context->timeout = comm::Milliseconds(300);
    try {
      step(ones(world.rank == 1 ? 5 : 3));
    } catch (const CommError& error) {
      const std::lock_guard lock(mutex);
      messages.emplace_back(error.what());
      throw;
    }
  };
  EXPECT_THROW(comm::run_ranks(3, body), CommError);
  EXPECT_THAT(messages, testing::SizeIs(3));
  EXPECT_THAT(messages, testing::Each(HasSubstr("rank 1 waited for rank")));
}

}  // namespace
}  // namespace monograph::session
