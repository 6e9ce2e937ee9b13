#include "comm/flight_recorder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace monograph::comm {
namespace {

Call call_of(Operation operation, int64_t sequence) {
  Call call = make_call(operation, 10, ElementType::kBF16, "bucket");
  call.sequence = sequence;
  return call;
}

TEST(FlightRecorderTest, KeepsTheLastCalls) {
  FlightRecorder recorder(1);
  recorder.add_group({"all", {0, 1}, 1});
  for (int64_t sequence = 1; sequence <= 300; ++sequence) {
    const int64_t number = recorder.begin("all", call_of(Operation::kAllGather, sequence));
    if (sequence < 300) recorder.finish(number);
  }
  const auto dump = nlohmann::json::parse(recorder.json("gloo", 5000));
  ASSERT_EQ(dump["entries"].size(), FlightRecorder::kCapacity);
  EXPECT_EQ(dump["rank"], 1);
  EXPECT_EQ(dump["entries"][0]["collective_seq_id"], 45);
  EXPECT_EQ(dump["entries"][0]["state"], "completed");
  EXPECT_EQ(dump["entries"][0]["input_sizes"][0][0], 10);
  EXPECT_EQ(dump["entries"][0]["output_sizes"][0][0], 20);
  EXPECT_EQ(dump["entries"][255]["state"], "started");
  EXPECT_EQ(dump["entries"][255]["profiling_name"], "gloo:all_gather");
  EXPECT_EQ(dump["pg_status"]["0"]["last_started_collective"], 300);
  EXPECT_EQ(dump["pg_status"]["0"]["last_completed_collective"], 299);
  EXPECT_EQ(dump["pg_config"]["all"]["ranks"], "[0, 1]");
}

TEST(FlightRecorderTest, ProgressLeavesOutSendAndRecv) {
  FlightRecorder recorder(0);
  recorder.add_group({"all", {0, 1}, 0});
  EXPECT_FALSE(recorder.progress("all"));
  const int64_t number = recorder.begin("all", call_of(Operation::kAllReduce, 7));
  Call send = call_of(Operation::kSend, 1);
  send.peer = 1;
  recorder.begin("all", send);
  EXPECT_EQ(recorder.progress("all")->call.sequence, 7);
  EXPECT_FALSE(recorder.progress("all")->is_done);
  recorder.finish(number);
  EXPECT_TRUE(recorder.progress("all")->is_done);
  const auto dump = nlohmann::json::parse(recorder.json("gloo", 5000));
  EXPECT_EQ(dump["entries"][1]["profiling_name"], "gloo:send 0->1");
  EXPECT_EQ(dump["entries"][1]["p2p_seq_id"], 1);
}

}  // namespace
}  // namespace monograph::comm
