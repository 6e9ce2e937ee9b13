#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/job_watch.h"

namespace monograph::comm {
namespace {

using State = RankReport::State;
using testing::ElementsAre;
using testing::HasSubstr;

const Group kGroup = {"all", {0, 1, 2, 3}, 0};

Call call_of(int64_t sequence, int64_t count = 8) {
  Call call = make_call(Operation::kAllReduce, count, ElementType::kF32, "bucket0");
  call.sequence = sequence;
  return call;
}

// All are in call 5.
std::vector<RankReport> reports() {
  return std::vector<RankReport>(4, {State::kAlive, Progress{call_of(5), false}});
}

TEST(JudgeTest, BlamesTheDeadBeforeTheSilentBeforeTheAbsent) {
  std::vector<RankReport> all = reports();
  all[3].progress = Progress{call_of(4), true};
  EXPECT_THAT(judge(kGroup, call_of(5), {"late", {}}, all).at_fault, ElementsAre(3));
  all[2].state = State::kSilent;
  EXPECT_THAT(judge(kGroup, call_of(5), {"late", {}}, all).at_fault, ElementsAre(2));
  all[1].state = State::kGone;
  EXPECT_THAT(judge(kGroup, call_of(5), {"late", {}}, all).at_fault, ElementsAre(1));
}

TEST(JudgeTest, LooksOutsideTheGroup) {
  std::vector<RankReport> all = reports();
  all.push_back({State::kSilent, std::nullopt});
  const Failure failure = judge(kGroup, call_of(5), {"late", {}}, all);
  EXPECT_THAT(failure.at_fault, ElementsAre(4));
  EXPECT_THAT(failure.reason, HasSubstr("outside this group"));
}

TEST(JudgeTest, BlamesTheFewThatDiffer) {
  std::vector<RankReport> all = reports();
  all[2].progress = Progress{call_of(5, 9), false};
  const Failure failure = judge(kGroup, call_of(5), {"", {2}, true}, all);
  EXPECT_THAT(failure.at_fault, ElementsAre(2));
  all[3].progress = all[2].progress;
  EXPECT_THAT(judge(kGroup, call_of(5), {"", {2}, true}, all).at_fault, ElementsAre(0, 1, 2, 3));
}

TEST(JudgeTest, BlamesNobodyWhenAllAreThere) {
  const Failure failure = judge(kGroup, call_of(5), {"the timeout passed", {}}, reports());
  EXPECT_THAT(failure.at_fault, ElementsAre());
  EXPECT_THAT(failure.reason, HasSubstr("slower than the timeout"));
}

TEST(JudgeTest, BlamesThePeerOfASend) {
  Call call = make_call(Operation::kRecv, 8, ElementType::kF32, "activation");
  call.peer = 2;
  std::vector<RankReport> all = reports();
  EXPECT_THAT(judge(kGroup, call, {"late", {}}, all).at_fault, ElementsAre(2));
  all[2].state = State::kLeft;
  EXPECT_THAT(judge(kGroup, call, {"late", {}}, all).reason, HasSubstr("rank 2 left the job"));
}

}  // namespace
}  // namespace monograph::comm
