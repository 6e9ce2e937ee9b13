#include "frontend/session/agreement.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "comm/threads/thread_world.h"

namespace monograph::session {
namespace {

using ::testing::HasSubstr;

Statement statement(const std::string& version) {
  return {.facts = {{"oneDNN", version}, {"graph hash", "1"}}, .graph = "graph"};
}

TEST(AgreementTest, EqualStatementsPassOnAnyNumberOfRanks) {
  for (const int size : {1, 2, 3, 4, 7}) {
    comm::run_ranks(size, [&](comm::World& world) {
      for (int i = 0; i < 2; ++i) {
        agree(*world.store, world.rank, size, "step", statement("2.6"), comm::Milliseconds(20'000));
      }
    });
  }
}

TEST(AgreementTest, AVersionThatDiffersIsNamedOnEveryRank) {
  comm::run_ranks(7, [&](comm::World& world) {
    const bool is_odd = world.rank == 3 || world.rank == 6;
    try {
      agree(*world.store, world.rank, 7, "step", statement(is_odd ? "3.5" : "2.6"),
            comm::Milliseconds(20'000));
      ADD_FAILURE() << "no error";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("ranks 0, 1, 2, 4, 5 against ranks 3, 6:\n"
                                          "  oneDNN: 2.6 against 3.5"));
    }
  });
}

TEST(AgreementTest, ARankThatSaysNothingIsNamed) {
  comm::run_ranks(2, [&](comm::World& world) {
    if (world.rank == 1) return;
    try {
      agree(*world.store, world.rank, 2, "step", statement("2.6"), comm::Milliseconds(50));
      ADD_FAILURE() << "no error";
    } catch (const CommError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 0 waited for rank 1"));
    }
  });
}

}  // namespace
}  // namespace monograph::session
