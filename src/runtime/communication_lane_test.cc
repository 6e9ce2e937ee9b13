#include "runtime/communication_lane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace monograph::runtime {
namespace {

TEST(CommunicationLane, DoesWorkInOrderBesideTheCaller) {
  std::vector<int> done;  // read after wait() only
  std::atomic<bool> may_go = false;
  CommunicationLane lane;
  lane.start([&] { may_go.wait(false); });
  int64_t last = 0;
  for (int i = 0; i < 100; ++i) last = lane.start([&done, i] { done.push_back(i); });
  may_go = true;
  may_go.notify_all();
  lane.wait(last);
  ASSERT_EQ(done.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[i], i);
}

TEST(CommunicationLane, AWaitForEarlierWorkDoesNotWaitForLater) {
  std::atomic<bool> may_go = false;
  CommunicationLane lane;
  const int64_t first = lane.start([] {});
  const int64_t second = lane.start([&] { may_go.wait(false); });
  lane.wait(first);
  may_go = true;
  may_go.notify_all();
  lane.wait(second);
}

TEST(CommunicationLane, AFailureIsThrownAtTheWaitAndDropsWhatFollows) {
  bool has_run = false;
  CommunicationLane lane;
  lane.start([] { throw std::runtime_error("rank 1 is gone"); });
  const int64_t next = lane.start([&] { has_run = true; });
  EXPECT_THROW(lane.wait(next), std::runtime_error);
  EXPECT_FALSE(has_run);
  lane.drain();
  const int64_t after = lane.start([&] { has_run = true; });
  lane.wait(after);
  EXPECT_TRUE(has_run);
}

}  // namespace
}  // namespace monograph::runtime
