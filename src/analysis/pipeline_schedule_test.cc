#include "analysis/pipeline_schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

namespace monograph::analysis {
namespace {

using Kind = Frame::Kind;
using Schedule = ir::Pipeline::Schedule;

ir::Pipeline pipeline_of(Schedule schedule, int ranks, int micro_batches, int chunks = 1) {
  ir::Pipeline pipeline;
  pipeline.schedule = schedule;
  pipeline.num_ranks = ranks;
  pipeline.num_chunks = chunks;
  pipeline.num_micro_batches = micro_batches;
  return pipeline;
}

double bubble_of(const ir::Pipeline& pipeline) {
  const auto times = play(pipeline, training_frames(pipeline),
                          [&](const Frame& frame) { return equal_cost(pipeline, frame); });
  EXPECT_TRUE(times.has_value());
  return times ? times->bubble_share : -1;
}

// Idle time over all time: (p-1)/(m+p-1) of 1F1B, (p-1)/(vm+p-1) interleaved, and of ZB-H1
// (p-1)(F+B-W) of m(F+B+W) more, B without W (Qi et al., table 2).
TEST(PipelineSchedule, BubblesAreThoseOfTheTheory) {
  for (const int p : {2, 3, 4, 8}) {
    for (const int m : {1, 2, 4, 8, 16, 24}) {
      SCOPED_TRACE(fmt::format("{} ranks, {} micro-batches", p, m));
      EXPECT_NEAR(bubble_of(pipeline_of(Schedule::k1F1B, p, m)), (p - 1.0) / (m + p - 1), 1e-12);
      if (m >= p) {
        EXPECT_NEAR(bubble_of(pipeline_of(Schedule::kZeroBubble, p, m)),
                    (p - 1.0) / (3 * m + p - 1), 1e-12);
      }
      for (const int v : {2, 3}) {
        if (m % p != 0) continue;
        EXPECT_NEAR(bubble_of(pipeline_of(Schedule::kInterleaved, p, m, v)),
                    (p - 1.0) / (v * m + p - 1), 1e-12);
      }
    }
  }
}

TEST(PipelineSchedule, EachFrameRunsOnceOnItsRank) {
  for (const auto& [schedule, chunks] :
       {std::pair(Schedule::k1F1B, 1), std::pair(Schedule::kInterleaved, 2),
        std::pair(Schedule::kZeroBubble, 1)}) {
    const ir::Pipeline pipeline = pipeline_of(schedule, 4, 8, chunks);
    const FrameOrders orders = training_frames(pipeline);
    std::set<Frame> seen;
    for (int rank = 0; rank < 4; ++rank) {
      for (const Frame& frame : orders[rank]) {
        EXPECT_EQ(pipeline.rank_of(frame.stage), rank);
        EXPECT_TRUE(seen.insert(frame).second) << to_text(frame);
      }
    }
    const size_t split = pipeline.splits_backward() ? 3 * 8 : 0;  // not on the first stage
    EXPECT_EQ(seen.size(), static_cast<size_t>(2 * 8 * pipeline.num_stages()) + split);
  }
}

// Activations are held from the forward frame to the last that reads them: of no more micro-batches
// on any rank than on the first one in 1F1B.
TEST(PipelineSchedule, ZeroBubbleHoldsNoMoreThanTheFirstRankOf1F1B) {
  const ir::Pipeline pipeline = pipeline_of(Schedule::kZeroBubble, 4, 12);
  for (const auto& order : training_frames(pipeline)) {
    int held = 0, most = 0;
    for (const Frame& frame : order) {
      const bool ends =
          frame.kind == Kind::kWeights || (frame.kind == Kind::kBackward && frame.stage == 0);
      held += frame.kind == Kind::kForward;
      most = std::max(most, held);
      held -= ends;
    }
    EXPECT_EQ(most, 4);
  }
}

TEST(PipelineSchedule, RanksThatWaitForEachOtherAreFound) {
  const ir::Pipeline pipeline = pipeline_of(Schedule::k1F1B, 2, 1);
  const FrameOrders orders = {{{Kind::kBackward, 0, 0}, {Kind::kForward, 0, 0}},
                              {{Kind::kForward, 1, 0}, {Kind::kBackward, 1, 0}}};
  EXPECT_FALSE(play(pipeline, orders, [](const Frame&) { return 1.0; }).has_value());
}

TEST(PipelineCut, PartsAreBalanced) {
  EXPECT_THAT(ir::balanced_parts({1, 1, 1, 1}, 2), testing::ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(ir::balanced_parts({1, 1, 1, 1, 1}, 2), testing::ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(ir::balanced_parts({1, 1, 1, 3}, 2), testing::ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(ir::balanced_parts({5, 1, 1, 1}, 3), testing::ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(ir::balanced_parts({1, 1}, 2), testing::ElementsAre(0, 1));
}

}  // namespace
}  // namespace monograph::analysis
