#include "train/compression_sweep.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/message_of.h"
#include "ir/rewriter.h"
#include "ops/builder.h"
#include "train/index_watch.h"

namespace monograph::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SweepConfig tiny() {
  SweepConfig config;
  config.model = {.name = "mlp", .num_layers = 1, .hidden = 128, .batch = 32};
  config.data_path = std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/text.txt";
  config.num_steps = 40;
  return config;
}

TEST(CompressionSweep, ComparesSettingsWithTheRunWithout) {
  SweepConfig config = tiny();
  config.settings = {"qsgd:8", "topk:0.2", "powersgd:2"};
  config.tolerance = 0.2;  // AdamW and few elements need longer
  const std::vector<SweepRow> rows = sweep_compression(config);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].setting, "none");
  EXPECT_EQ(rows[0].deviation, 0);
  for (size_t i = 1; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].setting, config.settings[i - 1]);
    EXPECT_LT(rows[i].sent_bytes, rows[0].sent_bytes / 2);
    EXPECT_GT(rows[i].deviation, rows[i].norm_deviation);
    EXPECT_GT(rows[i].norm_deviation, 0);
    EXPECT_NEAR(rows[i].loss, rows[0].loss, 0.2 * rows[0].loss) << rows[i].setting;
    EXPECT_THAT(rows[i].findings, IsEmpty());
    EXPECT_EQ(rows[i].broken_since, -1) << rows[i].setting;
  }
  EXPECT_LT(rows[1].deviation, 0.1);  // 127 levels
  const std::vector<SweepRow> again = sweep_compression(config);
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(again[i].loss, rows[i].loss);
}

// What a pass that is wrong could do: choose by something that is no gradient.
bool freeze_choice(ir::Graph& graph, passes::PassContext&) {
  ops::Builder build(graph);
  return ir::rewrite(graph, [&](ir::Node& node) -> ir::Rewrite {
    if (!node.is("abs")) return ir::keep();
    return build.full(node.types()[0], 1);
  });
}

bool repeat_choice(ir::Graph& graph, passes::PassContext&) {
  ops::Builder build(graph);
  return ir::rewrite(graph, [&](ir::Node& node) -> ir::Rewrite {
    if (!node.is("top_k")) return ir::keep();
    ir::Node* chosen = build.emit_node("top_k", {node.operand(0)}, node.attributes());
    return std::vector{chosen->result(0), build.mul(chosen->result(1), 0)};
  });
}

TEST(CompressionSweep, FindsAFrozenSetOfIndices) {
  SweepConfig config = tiny();
  config.num_steps = 12;
  config.settings = {"topk:0.01"};
  config.options.user_passes = {{"freeze_choice", freeze_choice, "planted"}};
  const std::vector<std::string> findings = sweep_compression(config)[1].findings;
  ASSERT_FALSE(findings.empty());
  EXPECT_THAT(findings[0], HasSubstr("step 9: the "));
  EXPECT_THAT(findings[0], HasSubstr("have not changed for 8 steps"));
}

TEST(CompressionSweep, FindsIndicesThatAreSentTwice) {
  SweepConfig config = tiny();
  config.num_steps = 2;
  config.settings = {"topk:0.01"};
  config.options.user_passes = {{"repeat_choice", repeat_choice, "planted"}};
  const std::vector<std::string> findings = sweep_compression(config)[1].findings;
  ASSERT_FALSE(findings.empty());
  EXPECT_THAT(findings[0], HasSubstr("step 1: index 0 of 'fc"));
  EXPECT_THAT(findings[0], HasSubstr("is sent more than once"));
}

TEST(IndexWatchTest, TellsAFrozenSetFromAllElements) {
  IndexWatch watch(3);
  for (int step = 1; step <= 9; ++step) {
    watch.observe("all", step, std::vector<int32_t>{0, 1}, 2);
    watch.observe("moves", step, std::vector<int32_t>{step, step + 1}, 100);
    watch.observe("rests", step, std::vector<int32_t>{step / 3, 50}, 100);  // three steps each
    watch.observe("frozen", step,
                  step % 2 == 0 ? std::vector<int32_t>{7, 3} : std::vector<int32_t>{3, 7}, 100);
  }
  EXPECT_THAT(watch.findings(),
              ElementsAre("step 4: the 2 indices of 'frozen' have not changed for 3 steps"));
}

TEST(BrokenSinceTest, IsTheBeginOfTheLastStretchAboveTheTolerance) {
  const std::vector<double> reference(40, 1.0);
  std::vector<double> losses(40, 1.05);
  EXPECT_EQ(broken_since(losses, reference, 0.1), -1);
  for (int i = 5; i < 15; ++i) losses[i] = 3;  // and comes back
  EXPECT_EQ(broken_since(losses, reference, 0.1), -1);
  for (int i = 30; i < 40; ++i) losses[i] = 1.6;  // the mean of 10 passes 1.1 with the first
  EXPECT_EQ(broken_since(losses, reference, 0.1), 31);
  losses.assign(20, 1.0);
  losses[19] = NAN;
  EXPECT_EQ(broken_since(losses, reference, 0.1), 20);
}

TEST(CompressionSweep, RefusesBadSettings) {
  SweepConfig config = tiny();
  config.settings = {"qsgd:5"};
  EXPECT_THAT(message_of([&] { sweep_compression(config); }), HasSubstr("qsgd of 5 bits"));
  config = tiny();
  config.num_ranks = 3;
  EXPECT_THAT(message_of([&] { sweep_compression(config); }),
              HasSubstr("a batch of 32 rows on 3 ranks"));
  config.num_ranks = 1;
  EXPECT_THAT(message_of([&] { sweep_compression(config); }), HasSubstr("2 ranks or more"));
}

}  // namespace
}  // namespace monograph::train
