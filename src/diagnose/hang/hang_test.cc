#include "diagnose/hang/hang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "diagnose/hang/flight_recorder.h"

namespace monograph::diagnose {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kWorld = group_key("0", {0, 1, 2, 3});

// A job of `world` ranks in one group, each with a whole dump.
Progress job(int world) {
  Progress progress;
  std::vector<int> ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.push_back(rank);
    progress.ranks[rank].is_complete = true;
  }
  progress.groups[group_key("0", ranks)] = {"0", "default_pg", ranks};
  progress.world_size = world;
  return progress;
}

Call call(std::string group, int64_t sequence, std::string op, bool pending, int64_t count = 64) {
  Call one;
  one.group = std::move(group);
  one.sequence = sequence;
  one.op = std::move(op);
  one.pending = pending;
  one.state = pending ? CallState::kScheduled : CallState::kCompleted;
  one.num_elements_in = one.num_elements_out = count;
  one.dtype = "Float";
  return one;
}

Call pair_call(std::string op, int source, int destination) {
  Call one = call(kWorld, 1, std::move(op), true);
  one.is_p2p = true;
  one.source = source;
  one.destination = destination;
  return one;
}

TEST(Hang, FinishedCallsAreNoHang) {
  Progress progress = job(4);
  for (auto& [rank, record] : progress.ranks)
    record.calls.push_back(call(kWorld, 1, "all_reduce", false));
  EXPECT_EQ(find_hang(progress).kind, Hang::Kind::kNone);
}

TEST(Hang, AChainOfWaitsEndsAtItsLastRank) {
  // 0 and 1 wait for 2 in one group, 2 waits for 3 in another, 3 does nothing.
  Progress progress = job(4);
  progress.groups["a [0,1,2]"] = {"a", "data", {0, 1, 2}};
  progress.groups["b [2,3]"] = {"b", "tensor", {2, 3}};
  for (int rank : {0, 1})
    progress.ranks[rank].calls.push_back(call("a [0,1,2]", 7, "all_reduce", true));
  progress.ranks[2].calls.push_back(call("b [2,3]", 3, "all_gather", true));
  Hang hang = find_hang(progress);
  EXPECT_EQ(hang.kind, Hang::Kind::kMissing);
  EXPECT_THAT(hang.culprits, ElementsAre(3));
  EXPECT_THAT(hang.headline, HasSubstr("tensor"));
}

TEST(Hang, RankWithoutDumpIsTheCulpritIfAllOthersEntered) {
  Progress progress = job(4);
  progress.ranks.erase(3);
  for (auto& [rank, record] : progress.ranks)
    record.calls.push_back(call(kWorld, 5, "all_reduce", true));
  Hang hang = find_hang(progress);
  EXPECT_THAT(hang.culprits, ElementsAre(3));
  EXPECT_THAT(hang.headline, HasSubstr("left no record"));
}

TEST(Hang, RankWithoutDumpIsNotBlamedForAKnownLaggard) {
  Progress progress = job(4);
  progress.ranks.erase(3);
  for (int rank : {0, 1}) progress.ranks[rank].calls.push_back(call(kWorld, 5, "all_reduce", true));
  progress.ranks[2].calls.push_back(call(kWorld, 4, "all_reduce", false));
  EXPECT_THAT(find_hang(progress).culprits, ElementsAre(2));
}

TEST(Hang, DeviceThatHasNotStartedIsNamed) {
  Progress progress = job(4);
  for (auto& [rank, record] : progress.ranks) {
    record.calls.push_back(call(kWorld, 4, "all_reduce", false));  // starts and ends are tracked
    record.calls.push_back(call(kWorld, 5, "all_reduce", true));
    if (rank != 1) record.calls.back().state = CallState::kStarted;
  }
  Hang hang = find_hang(progress);
  EXPECT_THAT(hang.culprits, ElementsAre(1));
  EXPECT_THAT(hang.headline, HasSubstr("never started"));
  EXPECT_THAT(hang.advice, HasSubstr("Xid"));
}

TEST(Hang, SendsWithoutReceiverPointAtTheReceiver) {
  Progress progress = job(4);
  progress.ranks[0].calls.push_back(pair_call("send", 0, 1));
  progress.ranks[1].calls.push_back(pair_call("send", 1, 2));
  Hang hang = find_hang(progress);
  EXPECT_EQ(hang.kind, Hang::Kind::kMissing);
  EXPECT_THAT(hang.culprits, ElementsAre(2));
}

// Rank 1 posted a receive ahead, then got stuck outside of any call; its peer waits for it in a
// collective.
TEST(Hang, AReceivePostedAheadDoesNotHideTheCulprit) {
  Progress progress = job(4);
  for (int rank : {0, 2, 3})
    progress.ranks[rank].calls.push_back(call(kWorld, 5, "all_reduce", true));
  progress.ranks[1].calls.push_back(call(kWorld, 4, "all_reduce", false));
  progress.ranks[1].calls.push_back(pair_call("recv", 0, 1));
  Hang hang = find_hang(progress);
  EXPECT_EQ(hang.kind, Hang::Kind::kMissing);
  EXPECT_THAT(hang.culprits, ElementsAre(1));
}

// As above, but the peer of the receive waits for nobody: it must not be taken for the end of the
// waiting.
TEST(Hang, AReceivePostedAheadDoesNotLeadAway) {
  Progress progress = job(4);
  progress.groups["a [1,2,3]"] = {"a", "data", {1, 2, 3}};
  for (int rank : {2, 3})
    progress.ranks[rank].calls.push_back(call("a [1,2,3]", 5, "all_reduce", true));
  progress.ranks[1].calls.push_back(pair_call("recv", 0, 1));
  EXPECT_THAT(find_hang(progress).culprits, ElementsAre(1));
}

// Rank 1 keeps 2 and 3 waiting because it waits for 0 in a pair, and 0 keeps others waiting too.
TEST(Hang, APairShowsWhichOfTwoOnlyWaitsInTurn) {
  Progress progress = job(6);
  progress.groups["a [1,2,3]"] = {"a", "data", {1, 2, 3}};
  progress.groups["b [0,4,5]"] = {"b", "data", {0, 4, 5}};
  for (int rank : {2, 3})
    progress.ranks[rank].calls.push_back(call("a [1,2,3]", 5, "all_reduce", true));
  for (int rank : {4, 5})
    progress.ranks[rank].calls.push_back(call("b [0,4,5]", 5, "all_reduce", true));
  progress.ranks[1].calls.push_back(pair_call("recv", 0, 1));
  EXPECT_THAT(find_hang(progress).culprits, ElementsAre(0));
}

TEST(Hang, TwoReceivesWaitForEachOther) {
  Progress progress = job(4);
  progress.ranks[0].calls.push_back(pair_call("recv", 1, 0));
  progress.ranks[1].calls.push_back(pair_call("recv", 0, 1));
  Hang hang = find_hang(progress);
  EXPECT_EQ(hang.kind, Hang::Kind::kCycle);
  EXPECT_THAT(hang.culprits, ElementsAre(0, 1));
}

TEST(Hang, AMatchedPairWaitsForNobody) {
  Progress progress = job(4);
  progress.ranks[0].calls.push_back(pair_call("send", 0, 1));
  progress.ranks[1].calls.push_back(pair_call("recv", 0, 1));
  EXPECT_EQ(find_hang(progress).kind, Hang::Kind::kStall);
}

TEST(Hang, TheFirstMismatchOfAGroupIsTheAnswer) {
  Progress progress = job(4);
  for (auto& [rank, record] : progress.ranks) {
    record.calls.push_back(call(kWorld, 1, "all_reduce", false));
    record.calls.push_back(call(kWorld, 2, rank == 2 ? "broadcast" : "all_reduce", true));
    record.calls.push_back(call(kWorld, 3, rank == 1 ? "all_gather" : "all_reduce", true));
  }
  Hang hang = find_hang(progress);
  EXPECT_EQ(hang.kind, Hang::Kind::kMismatch);
  EXPECT_EQ(hang.sequence, 2);
  EXPECT_THAT(hang.culprits, ElementsAre(2));
}

TEST(Hang, UnevenSizesMatterOnlyWhereTheyMustAgree) {
  Progress uneven = job(4);
  Progress reduce = job(4);
  for (int rank = 0; rank < 4; ++rank) {
    uneven.ranks[rank].calls.push_back(call(kWorld, 1, "all_to_all", false, 100 + rank));
    reduce.ranks[rank].calls.push_back(call(kWorld, 1, "all_reduce", true, rank == 3 ? 65 : 64));
  }
  EXPECT_EQ(find_hang(uneven).kind, Hang::Kind::kNone);
  EXPECT_THAT(find_hang(reduce).culprits, ElementsAre(3));
}

// Rank 1 skips the third of five equal calls: the numbers agree, the call sites do not.
TEST(Hang, ASkippedCallShowsInTheCallSites) {
  Progress progress = job(4);
  for (auto& [rank, record] : progress.ranks) {
    int64_t sequence = 0;
    for (int line = 10; line <= 50; line += 10) {
      if (rank == 1 && line == 30) continue;
      Call one = call(kWorld, ++sequence, "all_reduce", line == 50 && rank != 1);
      one.caller = std::make_shared<const StackFrame>(StackFrame{"step", "/job/train.py", line});
      record.calls.push_back(one);
    }
  }
  Hang hang = find_hang(progress);
  EXPECT_EQ(hang.kind, Hang::Kind::kMissing);
  EXPECT_THAT(hang.culprits, ElementsAre(1));
  EXPECT_EQ(hang.place.file, "/job/train.py");
  EXPECT_THAT(
      hang.evidence,
      Contains(HasSubstr("from #3 of the default group on, rank 1 is not where the others are")));
}

TEST(Hang, AThousandRanksAndALongChainAreNoBurden) {
  Progress progress;
  constexpr int kRanks = 2000;
  for (int rank = 0; rank + 1 < kRanks; ++rank) {
    std::string key = group_key(std::to_string(rank), {rank, rank + 1});
    progress.groups[key] = {std::to_string(rank), "", {rank, rank + 1}};
    progress.ranks[rank].is_complete = true;
    progress.ranks[rank].calls.push_back(call(key, 1, "all_reduce", true));
  }
  progress.ranks[kRanks - 1].is_complete = true;
  EXPECT_THAT(find_hang(progress).culprits, ElementsAre(kRanks - 1));
}

std::string dump(const std::string& entries, const std::string& extra = "") {
  return R"({"version":"2.4","pg_config":{"0":{"name":"0","desc":"default_pg","ranks":"[0, 1]"}},)" +
         extra + R"("entries":[)" + entries + "]}";
}

TEST(FlightRecorder, RankComesFromTheNameOrFromTheGroups) {
  EXPECT_EQ(read_flight_recorder(dump(""), "/x/nccl_trace_rank_1").ranks.begin()->first, 1);
  EXPECT_EQ(read_flight_recorder(dump(""), "/x/rank_0.json").ranks.begin()->first, 0);
  EXPECT_THROW(read_flight_recorder(dump(""), "/x/dump"), UserError);
  // No group has rank 7, so that number in the name is not its rank; only rank 1 is in both groups.
  std::string two =
      R"({"pg_config":{"0":{"name":"0","ranks":"[0, 1]"},"3":{"name":"3","ranks":"[1, 2]"}},"entries":[]})";
  EXPECT_EQ(read_flight_recorder(two, "/x/run_7").ranks.begin()->first, 1);
}

TEST(FlightRecorder, NumbersMayBeStringsAndStatusFindsItsGroup) {
  Progress progress = read_flight_recorder(
      dump(
          R"({"pg_id":0,"process_group":["0","default_pg"],"collective_seq_id":4,"p2p_seq_id":0,"profiling_name":"nccl:all_reduce",
            "state":"scheduled","retired":false,"is_p2p":false,"input_sizes":[[2,3],[4]],"output_sizes":[[2,3],[4]],
            "input_dtypes":["Float"],"output_dtypes":["Float"]})",
          R"("pg_status":{"0":{"last_enqueued_collective":"4","last_started_collective":"-1","last_completed_collective":"3"}},)"),
      "rank_0");
  const RankProgress& rank = progress.ranks.at(0);
  EXPECT_EQ(rank.groups.at(group_key("0", {0, 1})).completed, 3);
  ASSERT_EQ(rank.calls.size(), 1u);
  EXPECT_EQ(rank.calls[0].num_elements_in, 10);
  EXPECT_EQ(rank.calls[0].shape_in, "[2, 3] [4]");
  EXPECT_TRUE(rank.calls[0].pending);
}

TEST(FlightRecorder, DamageNamesTheFile) {
  for (const char* text :
       {"", "{", "[]", "{\"entries\":3}", "\x80\x02}", "\x80\x02X\xff\xff\xff\xff"}) {
    EXPECT_THAT([&] { read_flight_recorder(text, "the_file_0"); },
                testing::ThrowsMessage<UserError>(HasSubstr("the_file_0")))
        << text;
  }
}

}  // namespace
}  // namespace monograph::diagnose
