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

// What three ranks' errors say when they read `number(rank, call)` in call 0, 1, ... and branch on
// it; one of the paths has an exchange.
template <typename Number>
std::vector<std::string> errors_of_branches(int num_calls, Number number) {
  std::mutex mutex;
  std::vector<std::string> messages;
  const auto body = [&](comm::World& world) {
    omp_set_num_threads(1);
    const ir::Mesh mesh = data_mesh(3);
    const auto context = runtime::make_mesh_context(mesh, world);
    context->timeout = comm::Milliseconds(500);
    Session session({.mesh = context});
    Compiled step = session.compile([&](const Tensor& x) {
      const Tensor y = x * 2.0;
      if (sum(x).item() > 10) return sum(trace::all_reduce(y, mesh, "data"));
      return sum(y);
    });
    try {
      for (int call = 0; call < num_calls; ++call) {
        const auto x = ir::Literal::from({ir::DType::kF32, {1}},
                                         [&](int64_t) { return number(world.rank, call); });
        const double all = number(0, call) + number(1, call) + number(2, call);
        const double expected =
            2 * (number(world.rank, call) > 10 ? all : number(world.rank, call));
        EXPECT_EQ(step(x).loss(), expected);
      }
    } catch (const std::runtime_error& error) {
      const std::lock_guard lock(mutex);
      messages.emplace_back(error.what());
    }
  };
  comm::run_ranks(3, body);
  return messages;
}

TEST(Agreement, RanksThatReadOneNumberTakeOnePath) {
  EXPECT_THAT(errors_of_branches(5, [](int, int call) { return call % 2 == 0 ? 20 + call : call; }),
              testing::IsEmpty());
}

TEST(Agreement, ANumberThatGuardsAnExchangeMustBeEqualOnAllRanks) {
  const auto messages = errors_of_branches(
      4, [](int rank, int call) { return rank == 1 && call == 3 ? 2 : 20 + call; });
  ASSERT_THAT(messages, testing::SizeIs(3));
  for (const std::string& message : messages) {
    EXPECT_THAT(message, HasSubstr("item() reads the value of f32[] on the host, and ranks read "
                                   "different numbers: "));
    EXPECT_THAT(message, HasSubstr("2 on rank 1"));
    EXPECT_THAT(message, HasSubstr("23 on ranks 0, 2"));
    EXPECT_THAT(message, HasSubstr("ranks_agree_test.cc:"));
    EXPECT_THAT(message, HasSubstr("reduce it over the ranks before it is read"));
  }
}

// In the first call no rank knows yet that a path has an exchange.
TEST(Agreement, ANumberThatGuardsAnExchangeIsNamedInTheFirstCallToo) {
  const auto messages = errors_of_branches(1, [](int rank, int) { return rank == 1 ? 2 : 20; });
  ASSERT_THAT(messages, testing::SizeIs(2));
  EXPECT_THAT(messages, testing::Each(HasSubstr("item() reads the value of f32[] on the host: 20 "
                                                "here, at ")));
  EXPECT_THAT(messages,
              testing::Each(HasSubstr("ranks that read another number take another path")));
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
