#include "diagnose/hang/hang_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "diagnose/hang/hang.h"
#include "diagnose/hang/ras.h"

namespace monograph::diagnose {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Splits off "[rank3]:" the way the frame does.
void read_line(HangText& reader, const std::string& line) {
  static const std::regex prefix(R"(^\[rank(\d+)\]:\s?)");
  std::smatch match;
  bool found = std::regex_search(line, match, prefix);
  reader.read(found ? match.suffix().str() : line, found ? std::stoi(match[1]) : -1);
}

Hang answer(const std::string& text) {
  HangText reader;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) read_line(reader, line);
  return find_hang(reader.finish());
}

Hang answer_files(const std::string& kind) {
  fs::path folder = fs::path(MONOGRAPH_SOURCE_DIR) / ".." / "shared" / "data" / "hang_gloo";
  Progress whole;
  for (int rank = 0; rank < 4; ++rank) {
    HangText reader;
    std::ifstream in(folder / (kind + "_rank" + std::to_string(rank) + ".txt"));
    for (std::string line; std::getline(in, line);) read_line(reader, line);
    merge_progress(whole, reader.finish());
  }
  return find_hang(whole);
}

bool has_gloo_data() {
  return fs::exists(fs::path(MONOGRAPH_SOURCE_DIR) / ".." / "shared" / "data" / "hang_gloo");
}

TEST(HangText, GlooTypeNamesTheRankThatCalledSomethingElse) {
  if (!has_gloo_data()) GTEST_SKIP() << "missing ../shared/data/hang_gloo";
  Hang hang = answer_files("type");
  EXPECT_EQ(hang.kind, Hang::Kind::kMismatch);
  EXPECT_THAT(hang.culprits, ElementsAre(2));
  EXPECT_EQ(hang.sequence, 3);
  EXPECT_THAT(hang.headline, HasSubstr("all_gather"));
}

TEST(HangText, GlooSkipNamesTheRankThatStayedAway) {
  if (!has_gloo_data()) GTEST_SKIP() << "missing ../shared/data/hang_gloo";
  Hang hang = answer_files("skip");
  EXPECT_EQ(hang.kind, Hang::Kind::kMissing);
  EXPECT_THAT(hang.culprits, ElementsAre(3));
  EXPECT_EQ(hang.sequence, 3);
  EXPECT_THAT(hang.evidence, Contains(HasSubstr("40.0 s")));
}

std::string watchdog(int rank, int sequence, const char* op, long count, int enqueued,
                     int completed, int generation) {
  char line[1024];
  std::string out;
  snprintf(line, sizeof line,
           "[rank%d]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank %d] Watchdog caught "
           "collective "
           "operation timeout: WorkNCCL(SeqNum=%d, OpType=%s, NumelIn=%ld, NumelOut=%ld, "
           "Timeout(ms)=600000) ran for "
           "600020 milliseconds before timing out.\n",
           rank, rank, sequence, op, count, count);
  if (generation > 0) out += line;
  const char* formats[] = {
      "[E ProcessGroupNCCL.cpp:475] [Rank %d] Watchdog caught collective operation timeout: "
      "WorkNCCL(SeqNum=%d, "
      "OpType=%s, TensorShape=[%ld], Timeout(ms)=1800000) ran for 1806448 milliseconds before "
      "timing out.\n",
      "[rank%d]:[E1016 03:31:38.929234295 ProcessGroupNCCL.cpp:1709] [PG 0 Rank %d] Timeout at "
      "NCCL work: %d, last "
      "enqueued NCCL work: %d, last completed NCCL work: %d.\n",
      "[rank%d]:[E626 06:24:44.906457629 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) "
      "Rank %d] Exception "
      "(either an error or timeout) detected by watchdog at work: %d, last enqueued NCCL work: %d, "
      "last completed NCCL "
      "work: %d.\n",
      "[rank%d]:[E105 10:20:30.123456789 ProcessGroupNCCL.cpp:684] [PG ID 0 PG GUID 0(default_pg) "
      "Rank %d]  failure "
      "detected by watchdog at work sequence id: %d PG status: last enqueued work: %d, last "
      "completed work: %d\n"};
  if (generation == 0) {
    snprintf(line, sizeof line, formats[0], rank, sequence, op, count);
  } else {
    snprintf(line, sizeof line, formats[generation], rank, rank, sequence, enqueued, completed);
  }
  return out + line;
}

class Watchdog : public testing::TestWithParam<int> {};

TEST_P(Watchdog, SameCallOnAllRanksIsAStall) {
  std::string text;
  for (int rank = 0; rank < 4; ++rank)
    text += watchdog(rank, 808, "ALLREDUCE", 9801523, 811, 807, GetParam());
  Hang hang = answer(text);
  EXPECT_EQ(hang.kind, Hang::Kind::kStall) << hang.headline;
  EXPECT_EQ(hang.sequence, 808);
  EXPECT_THAT(hang.culprits, IsEmpty());
}

TEST_P(Watchdog, SilentRankNeverEntered) {
  std::string text;
  for (int rank : {0, 1, 3})
    text += watchdog(rank, 808, "ALLREDUCE", 9801523, 811, 807, GetParam());
  Hang hang = answer(text);
  EXPECT_EQ(hang.kind, Hang::Kind::kMissing) << hang.headline;
  EXPECT_THAT(hang.culprits, ElementsAre(2));
}

TEST_P(Watchdog, OtherOperationIsAMismatch) {
  std::string text;
  for (int rank = 0; rank < 4; ++rank) {
    text += watchdog(rank, 5, rank == 1 ? "BROADCAST" : "ALLREDUCE", 10, 5, 4, GetParam());
  }
  Hang hang = answer(text);
  EXPECT_EQ(hang.kind, Hang::Kind::kMismatch) << hang.headline;
  EXPECT_THAT(hang.culprits, ElementsAre(1));
}

TEST_P(Watchdog, OtherSizeIsAMismatch) {
  std::string text;
  for (int rank = 0; rank < 4; ++rank) {
    text += watchdog(rank, 5, "ALLREDUCE", rank == 3 ? 512 : 1024, 5, 4, GetParam());
  }
  Hang hang = answer(text);
  EXPECT_EQ(hang.kind, Hang::Kind::kMismatch) << hang.headline;
  EXPECT_THAT(hang.culprits, ElementsAre(3));
  EXPECT_THAT(hang.headline, HasSubstr("size mismatch"));
}

INSTANTIATE_TEST_SUITE_P(Generations, Watchdog, testing::Values(0, 1, 2, 3));

TEST(HangText, EnqueuedEqualsCompletedMeansNeverEntered) {
  std::string text = watchdog(0, 808, "ALLREDUCE", 10, 811, 807, 3) +
                     watchdog(1, 808, "ALLREDUCE", 10, 811, 807, 3);
  // Rank 2's watchdog fired in another group, and it says that it is idle in the default one.
  text +=
      "[rank2]:[E105 10:20:31.123456789 ProcessGroupNCCL.cpp:684] [PG ID 0 PG GUID 0(default_pg) "
      "Rank 2]  failure "
      "detected by watchdog at work sequence id: 807 PG status: last enqueued work: 807, last "
      "completed work: 807\n";
  Hang hang = answer(text);
  EXPECT_EQ(hang.kind, Hang::Kind::kMissing);
  EXPECT_THAT(hang.culprits, ElementsAre(2));
}

TEST(HangText, HealthyTextHasNoHang) {
  std::string text =
      "[rank0]:[I1129 14:53:56.050727896 ProcessGroupWrapper.cpp:586] [Rank 0] Running collective: "
      "CollectiveFingerPrint(SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[1024], "
      "TensorDtypes=Float, x)\n"
      "[rank1]:[I1129 14:53:56.050727896 ProcessGroupWrapper.cpp:586] [Rank 1] Running collective: "
      "CollectiveFingerPrint(SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[1024], "
      "TensorDtypes=Float, x)\n"
      "[rank0]:[I1129 14:53:57.050727896 ProcessGroupWrapper.cpp:586] [Rank 0] Running collective: "
      "CollectiveFingerPrint(SequenceNumber=1, OpType=ALLREDUCE, TensorShape=[1024], "
      "TensorDtypes=Float, x)\n"
      "epoch 1 finished, [2] started training\n";
  EXPECT_EQ(answer(text).kind, Hang::Kind::kNone);
}

TEST(HangText, ADamagedTimeStampIsNoTime) {
  Hang hang = answer(
      "[rank0]:[I91689999999 99:99:99.1 ProcessGroupWrapper.cpp:586] [Rank 0] Running collective: "
      "CollectiveFingerPrint(SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[1024], "
      "TensorDtypes=Float, x)\n");
  EXPECT_EQ(hang.kind, Hang::Kind::kNone);
}

TEST(HangText, DesyncReportNamesTheLaggingRank) {
  std::string text =
      "[rank0]:[E1016 03:31:38.1 ProcessGroupNCCL.cpp:1709] \n"
      "\t - [0] Timeout at collective: ALLREDUCE, #5\n"
      "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n"
      "\t   - [3] finished collective #4, but didn't join collective #5 (count from 1)\n"
      "\t - Snapshot of ranks' latest states:\n"
      "\t   #4 finished ranks:\n"
      "\t     [3] finished ALLREDUCE\n"
      "\t   #5 started ranks:\n"
      "\t     [0, 1, 2] started ALLREDUCE\n";
  Hang hang = answer(text);
  EXPECT_EQ(hang.kind, Hang::Kind::kMissing);
  EXPECT_THAT(hang.culprits, ElementsAre(3));
  EXPECT_THAT(hang.headline, HasSubstr("all_reduce #5"));
}

TEST(HangText, FingerprintsWithoutNumbersStillShowTheMismatch) {
  Hang hang = answer(
      "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
      "CollectiveFingerPrint(OpType=BROADCAST, TensorShape=[16], TensorDtypes=Long), but Rank 0 is "
      "running collective: "
      "CollectiveFingerPrint(OpType=ALLGATHER, TensorShape=[16], TensorDtypes=Long).\n");
  EXPECT_EQ(hang.kind, Hang::Kind::kMismatch);
  EXPECT_THAT(hang.culprits, ElementsAre(0, 1));
}

// Between messages of different length a rank misreads the other's call.
TEST(HangText, WhatARankSaysOfItselfCountsMore) {
  const std::string reduce =
      "CollectiveFingerPrint(SequenceNumber=6, OpType=ALLREDUCE, TensorShape=[7], "
      "TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default))), but Rank 2 is "
      "running collective: CollectiveFingerPrint(SequenceNumber=0OpType=REDUCE)."
      "Collectives differ in the following aspects: \t Sequence number: 6vs 0\n";
  const std::string start = "RuntimeError: Detected mismatch between collectives on ranks. Rank ";
  Hang hang = answer(
      "[rank0]: " + start + "0 is running collective: " + reduce + "[rank1]: " + start +
      "1 is running collective: " + reduce + "[rank2]: " + start +
      "2 is running collective: CollectiveFingerPrint(SequenceNumber=6OpType=BARRIER), but Rank 0 "
      "is running collective: CollectiveFingerPrint(SequenceNumber=0OpType=GATHER)."
      "Collectives differ in the following aspects: \t Sequence number: 6vs 0\n");
  EXPECT_EQ(hang.kind, Hang::Kind::kMismatch);
  EXPECT_THAT(hang.culprits, ElementsAre(2));
  EXPECT_THAT(hang.headline, HasSubstr("#6"));
  EXPECT_THAT(hang.headline, HasSubstr("rank 2 calls barrier"));
}

// TORCH_DISTRIBUTED_DEBUG=DETAIL logs every collective of a job that may run for days.
TEST(HangText, KeepsTheLastFingerprints) {
  HangText reader;
  for (int call = 0; call < 6000; ++call) {
    reader.read("[Rank 0] Running collective: CollectiveFingerPrint(SequenceNumber=" +
                    std::to_string(call) + ", OpType=ALLREDUCE, TensorShape=[64])",
                0);
  }
  Progress progress = reader.finish();
  const std::vector<Call>& calls = progress.ranks.at(0).calls;
  EXPECT_EQ(calls.size(), 5000u);
  EXPECT_EQ(calls.back().sequence, 5999);
}

TEST(HangText, PlainGlooTimeoutBlamesTheSilentRank) {
  std::string text = "[rank3]:[W1 imported]\n";
  for (int rank : {0, 1, 2}) {
    text += "[rank" + std::to_string(rank) +
            "]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] "
            "Timed out waiting "
            "6000ms for recv operation to complete\n";
  }
  Hang hang = answer(text);
  EXPECT_EQ(hang.kind, Hang::Kind::kMissing);
  EXPECT_THAT(hang.culprits, ElementsAre(3));
}

TEST(HangText, TorchrunNamesAKilledRank) {
  Hang hang = answer(
      "Root Cause (first observed failure):\n[0]:\n  time      : 2024-01-01_00:00:00\n  host      "
      ": a\n"
      "  rank      : 5 (local_rank: 5)\n  exitcode  : -9 (pid: 123)\n");
  EXPECT_THAT(hang.culprits, ElementsAre(5));
  EXPECT_THAT(hang.headline, HasSubstr("SIGKILL"));
}

Hang ras_text(const std::string& text) {
  RasText reader;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) reader.read(line);
  return find_hang(reader.finish());
}

TEST(Ras, HealthySummaryHasNoHang) {
  EXPECT_EQ(
      ras_text("  Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
               "      #  in group  per comm  per node  per comm  in group\n"
               "      0         8         4         1         4        32   RUNNING      OK\n")
          .kind,
      Hang::Kind::kNone);
}

TEST(Ras, CountsThatDifferNameTheRanksBehindWithDoubt) {
  Hang hang = ras_text(
      "  #0-0 (27a079b828ff1a75) MISMATCH\n    Communicator ranks have different collective "
      "operation counts\n"
      "    26 ranks have launched up to operation 6650\n    6 ranks have launched up to operation "
      "6649\n"
      "    Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210\n"
      "    Rank 2 -- GPU 2 managed by process 483074 on node 172.16.64.210\n");
  EXPECT_EQ(hang.kind, Hang::Kind::kMissing);
  EXPECT_FALSE(hang.is_certain);
  EXPECT_THAT(hang.culprits, ElementsAre(0, 2));
}

TEST(Ras, MissingRankIsTheCulprit) {
  Hang hang = ras_text(
      "  DEAD\n    1 job process is considered dead (unreachable via the RAS network)\n"
      "    Process 3487984 on node 172.16.64.213 managing GPU 5\n\n"
      "  #0-0 (cf264af53edbe986) INCOMPLETE\n    Missing communicator data from 1 rank\n    The "
      "missing rank: 21\n");
  EXPECT_THAT(hang.culprits, ElementsAre(21));
  EXPECT_THAT(hang.headline, HasSubstr("dead, RAS"));
}

TEST(Ras, JsonNamesTheUnresponsiveRank) {
  fs::path path = fs::path(MONOGRAPH_SOURCE_DIR) / ".." / "shared" / "data" / "nccl" /
                  "ras_json_example_from_docs.json";
  if (!fs::exists(path)) GTEST_SKIP() << "missing " << path;
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  Hang hang = find_hang(read_ras_json(text.str(), path.string()));
  EXPECT_THAT(hang.culprits, ElementsAre(1));
}

}  // namespace
}  // namespace monograph::diagnose
