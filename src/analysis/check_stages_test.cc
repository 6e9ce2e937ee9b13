#include "analysis/check_stages.h"

#include <gmock/gmock.h>

namespace monograph::analysis {
namespace {

using Kind = StageCall::Kind;
using ::testing::HasSubstr;

StageCall send(int to, const char* what) {
  return {Kind::kSend, to, what};
}
StageCall recv(int from, const char* what) {
  return {Kind::kRecv, from, what};
}
StageCall all(const char* what) {
  return {Kind::kAll, -1, what};
}

TEST(CheckStages, TransfersInOneOrderMeet) {
  EXPECT_FALSE(check_stages({{send(1, "x"), recv(1, "dx"), all("sum")},
                             {recv(0, "x"), send(2, "y"), recv(2, "dy"), send(0, "dx"), all("sum")},
                             {recv(1, "y"), send(1, "dy"), all("sum")}}));
}

TEST(CheckStages, AnUnmatchedSendIsNamedWithBothSides) {
  const auto message =
      check_stages({{send(1, "4 f32 'x'"), send(1, "4 f32 'y'")}, {recv(0, "4 f32 'x'")}});
  ASSERT_TRUE(message.has_value());
  EXPECT_THAT(*message, HasSubstr("stage 0: call 2, send to 1: 4 f32 'y'"));
  EXPECT_THAT(*message, HasSubstr("stage 1: has no call left"));
}

// Each waits for the other to take what it sends.
TEST(CheckStages, AWaitCycleIsFound) {
  const auto message = check_stages({{send(1, "x"), recv(1, "y")}, {send(0, "y"), recv(0, "x")}});
  ASSERT_TRUE(message.has_value());
  EXPECT_THAT(*message, HasSubstr("stage 0: call 1, send to 1: x"));
  EXPECT_THAT(*message, HasSubstr("stage 1: call 1, send to 0: y"));
}

TEST(CheckStages, OtherSizesAndCollectivesOfSomeStagesAreFound) {
  EXPECT_TRUE(check_stages({{send(1, "4 f32")}, {recv(0, "8 f32")}}));
  EXPECT_TRUE(check_stages({{all("sum"), send(1, "x")}, {recv(0, "x"), all("sum")}}));
  EXPECT_TRUE(check_stages({{send(5, "x")}, {}}));
}

TEST(CheckStages, CallsGoThroughText) {
  const std::vector<StageCall> calls = {send(1, "4 f32 'forward 0, 0 to 1'"), recv(12, ""),
                                        all("all_reduce over pp of 2: 1 f32 sum")};
  EXPECT_EQ(parse_stage_calls(to_lines(calls)), calls);
  EXPECT_TRUE(parse_stage_calls("").empty());
}

}  // namespace
}  // namespace monograph::analysis
