#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "diagnose/hang/hang.h"
#include "diagnose/nccl/nccl_checks.h"

namespace monograph::diagnose {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

NcclLog read(const std::string& text) {
  NcclLogReader reader;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) reader.read(line);
  return reader.finish();
}

std::string host_of(int rank) {
  return rank < 2 ? "node-a" : "node-b";
}

struct Job {
  std::string network[4] = {"IB", "IB", "IB", "IB"};
  std::string version[4] = {"2.27.3+cuda12.9", "2.27.3+cuda12.9", "2.27.3+cuda12.9",
                            "2.27.3+cuda12.9"};
  std::string nics[4] = {"[0]mlx5_0:1/IB", "[0]mlx5_0:1/IB", "[0]mlx5_0:1/IB", "[0]mlx5_0:1/IB"};
  std::string extra[4];  // messages, one a line
  std::string local[4] = {"P2P/CUMEM", "P2P/CUMEM", "P2P/CUMEM", "P2P/CUMEM"};
  std::string route = "NET/IB/0/GDRDMA";
  bool completes[4] = {true, true, true, true};
  bool starts[4] = {true, true, true, true};
};

// A job of two hosts with two GPUs each, as NCCL 2.27 prints it.
std::string log_of(const Job& job) {
  std::string text = "NCCL version " + job.version[0] + "\n";
  for (int rank = 0; rank < 4; ++rank) {
    std::string prefix = host_of(rank) + ":" + std::to_string(1000 + rank) + ":" +
                         std::to_string(2000 + rank) + " [" + std::to_string(rank % 2) +
                         "] NCCL INFO ";
    auto say = [&](const std::string& message) { text += prefix + message + "\n"; };
    std::string r = std::to_string(rank);
    say("NCCL version " + job.version[rank]);
    say("Bootstrap : Using eth0:10.0.0." + r + "<0>");
    if (job.network[rank] == "IB")
      say("NET/IB : Using " + job.nics[rank] + " [RO]; OOB eth0:10.0.0.1<0>");
    if (job.network[rank] == "Socket") say("NET/IB : No device found.");
    say("Using network " + job.network[rank]);
    std::istringstream extra(job.extra[rank]);
    for (std::string line; std::getline(extra, line);) say(line);
    std::string comm = "ncclCommInitRankConfig comm 0x5" + r + "0 rank " + r +
                       " nranks 4 cudaDev " + std::to_string(rank % 2) +
                       " nvmlDev 0 busId 1000 commId 0xabcdef12 - Init ";
    if (job.starts[rank]) say(comm + "START");
    if (!job.starts[rank]) continue;
    say("comm 0x5" + r + "0 rank " + r + " nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0");
    if (rank == 0) say("Channel 00/02 :    0   1   2   3");
    int next = (rank + 1) % 4;
    std::string channel = "Channel 00/0 : " + r + "[0] -> " + std::to_string(next) + "[0] ";
    say(channel + (rank % 2 == 0 ? "via " + job.local[rank] : "[send] via " + job.route));
    if (rank % 2 == 0)
      say("Channel 00/0 : " + std::to_string((rank + 3) % 4) + "[0] -> " + r +
          "[0] [receive] via " + job.route);
    say("Trees [0] " + std::string(rank == 3 ? "-1" : std::to_string(rank + 1)) + "/-1/-1->" + r +
        "->" + std::to_string(rank - 1));
    say("2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per "
        "peer");
    if (job.completes[rank]) say(comm + "COMPLETE");
  }
  return text;
}

testing::Matcher<Finding> finding(const std::string& code) {
  return Field("code", &Finding::code, code);
}

testing::Matcher<Finding> finding(const std::string& code, std::vector<int> ranks) {
  return AllOf(finding(code),
               Field("where", &Finding::where, Field("ranks", &Place::ranks, ranks)));
}

TEST(Nccl, HealthyJobHasNoFinding) {
  NcclLog log = read(log_of({}));
  for (const Finding& found : check_nccl(log)) ADD_FAILURE() << found.code << ": " << found.what;
  ASSERT_EQ(log.communicators.size(), 1u);
  const NcclCommunicator& communicator = log.communicators.at("0xabcdef12");
  EXPECT_EQ(communicator.completed.size(), 4u);
  EXPECT_EQ(communicator.num_nodes, 2);
  EXPECT_EQ(communicator.rings.at(0), "0 1 2 3");
  EXPECT_EQ(communicator.parents.at(0).at(2), 1);
  EXPECT_EQ(log.processes.at({"node-b", 1003, 1}).rank, 3);
}

TEST(Nccl, TornLinesStillGiveEveryMessage) {
  std::string text = log_of({});
  size_t second_host = text.find("node-b");  // each host's first line is whole
  std::string torn;
  for (size_t i = 0, line = 0; i < text.size(); ++i) {
    if (i == second_host && torn.back() != '\n') torn += '\n';
    if (text[i] == '\n' && ++line % 3 != 0) continue;  // two of three line ends are lost
    torn += text[i];
  }
  NcclLog log = read("some Python warning " + torn);
  EXPECT_EQ(log.communicators.at("0xabcdef12").completed.size(), 4u);
  EXPECT_THAT(check_nccl(log), IsEmpty());
}

TEST(Nccl, HostOnSocketsIsNamed) {
  Job job;
  job.network[2] = job.network[3] = "Socket";
  EXPECT_THAT(check_nccl(read(log_of(job))), Contains(finding("nccl_network_differs", {2, 3})));
}

TEST(Nccl, SocketsEverywhereAreToldOfBetweenHosts) {
  Job job;
  for (auto& network : job.network) network = "Socket";
  job.route = "NET/Socket/0";
  std::vector<Finding> found = check_nccl(read(log_of(job)));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].code, "nccl_sockets_between_hosts");
  EXPECT_THAT(found[0].why, HasSubstr("No device found"));
}

TEST(Nccl, GdrDisabledOnOneHostIsNamed) {
  Job job;
  job.extra[0] = job.extra[1] = "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'";
  job.extra[2] = job.extra[3] = "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'";
  EXPECT_THAT(check_nccl(read(log_of(job))), Contains(finding("nccl_gdr_differs", {0, 1})));
}

TEST(Nccl, NoGdrAnywhereIsToldOf) {
  Job job;
  job.route = "NET/IB/0";
  for (auto& extra : job.extra) extra = "NCCL_NET_GDR_LEVEL set by environment to LOC";
  std::vector<Finding> found = check_nccl(read(log_of(job)));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].code, "nccl_no_gdr");
  EXPECT_THAT(found[0].why, HasSubstr("NCCL_NET_GDR_LEVEL"));
}

TEST(Nccl, VersionsAndEnvironmentsAreCompared) {
  Job job;
  job.version[3] = "2.21.5+cuda12.4";
  job.extra[1] = "NCCL_ALGO set by environment to Tree";
  std::vector<Finding> found = check_nccl(read(log_of(job)));
  EXPECT_THAT(found, Contains(finding("nccl_version_differs", {3})));
  EXPECT_THAT(found, Contains(finding("nccl_environment_differs", {1})));
  EXPECT_EQ(found.size(), 2u);
}

TEST(Nccl, AVariableThatOnlyLeadersReadDoesNotDiffer) {
  Job job;
  job.extra[0] = "NCCL_COMM_ID set by environment to 10.0.0.1:29500";
  EXPECT_THAT(check_nccl(read(log_of(job))), IsEmpty());
  job.extra[2] = job.extra[0];  // one process of each host
  EXPECT_THAT(check_nccl(read(log_of(job))), IsEmpty());
}

TEST(Nccl, WhatWasAskedIsComparedWithWhatIsUsed) {
  Job job;
  for (auto& extra : job.extra) extra = "NCCL_SOCKET_IFNAME set by environment to ib";
  EXPECT_THAT(check_nccl(read(log_of(job))),
              ElementsAre(AllOf(finding("nccl_not_as_asked"),
                                Field("what", &Finding::what, HasSubstr("asks for ib")))));
  for (auto& extra : job.extra) extra = "NCCL_SOCKET_IFNAME set by environment to ib,eth";
  EXPECT_THAT(check_nccl(read(log_of(job))), IsEmpty());
}

TEST(Nccl, NicsThatWereAskedForAreListed) {
  Job job;
  for (auto& extra : job.extra) extra = "NCCL_IB_HCA set by environment to =mlx5_0:1,mlx5_4";
  EXPECT_THAT(check_nccl(read(log_of(job))),
              ElementsAre(AllOf(finding("nccl_not_as_asked"),
                                Field("what", &Finding::what, HasSubstr("asks for mlx5_4,")))));
  for (auto& extra : job.extra) extra = "NCCL_IB_HCA set by environment to mlx5";
  EXPECT_THAT(check_nccl(read(log_of(job))), IsEmpty());
}

TEST(Nccl, HostWithFewerNicsIsNamed) {
  Job job;
  job.nics[0] = job.nics[1] = "[0]mlx5_0:1/IB [1]mlx5_1:1/IB";
  EXPECT_THAT(check_nccl(read(log_of(job))), Contains(finding("nccl_nics_differ", {2, 3})));
}

TEST(Nccl, SharedMemoryWhereOthersGoDirect) {
  Job job;
  job.local[2] = "SHM/direct/direct";
  EXPECT_THAT(check_nccl(read(log_of(job))), Contains(finding("nccl_shared_memory", {2})));
}

TEST(Nccl, CrossRailsAreCounted) {
  std::string text = log_of({});
  size_t at = text.find("[receive] via NET/IB/0");
  text.replace(at, 22, "[receive] via NET/IB/1");
  EXPECT_THAT(check_nccl(read(text)), Contains(finding("nccl_cross_rail")));
}

TEST(Nccl, RankThatNeverBeganIsNamed) {
  Job job;
  job.starts[2] = false;
  for (bool& completes : job.completes) completes = false;
  EXPECT_THAT(check_nccl(read(log_of(job))), Contains(finding("nccl_init_incomplete", {2})));
}

TEST(Nccl, WarningsHaveAdvice) {
  NcclLog log = read(
      "\n[2024-11-29 10:00:00] node-a:1000:2000 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : "
      "Got completion from peer "
      "10.0.0.2<0> with status=12 opcode=0 len=0 vendor err 129\n");
  std::vector<Finding> found = check_nccl(log);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].advice, HasSubstr("NCCL_IB_TIMEOUT"));
  EXPECT_EQ(found[0].severity, Severity::kError);
}

std::string call_line(int rank, int count, const char* op, int size) {
  char line[300];
  snprintf(line, sizeof line,
           "%s:%d:%d [%d] NCCL INFO %s: opCount %x sendbuff 0x7f recvbuff 0x7f count %d datatype 7 "
           "op 0 root 0 comm 0x5%d0 "
           "[nranks=4] stream 0x1\n",
           host_of(rank).c_str(), 1000 + rank, 2000 + rank, rank % 2, op, count, size, rank);
  return line;
}

TEST(Nccl, CollectiveTraceShowsTheMismatch) {
  std::string text = log_of({});
  for (int count = 0; count < 20; ++count) {
    for (int rank = 0; rank < 4; ++rank) {
      bool odd = rank == 1 && count == 17;
      text += call_line(rank, count, odd ? "AllGather" : "AllReduce", 1024);
    }
  }
  Hang hang = find_hang(nccl_progress(read(text)));
  EXPECT_EQ(hang.kind, Hang::Kind::kMismatch);
  EXPECT_THAT(hang.culprits, ElementsAre(1));
  EXPECT_EQ(hang.sequence, 17);
}

TEST(Nccl, CollectiveTraceNamesTheRankBehind) {
  std::string text = log_of({});
  for (int count = 0; count < 20; ++count) {
    for (int rank = 0; rank < 4; ++rank) {
      if (rank != 3 || count < 12) text += call_line(rank, count, "AllReduce", 1024);
    }
  }
  Hang hang = find_hang(nccl_progress(read(text)));
  EXPECT_FALSE(hang.is_certain);
  EXPECT_THAT(hang.culprits, ElementsAre(3));
}

// The truths are what the logs print: see the lists of NICs and the channels there.
TEST(Nccl, RealLogs) {
  fs::path folder = fs::path(MONOGRAPH_SOURCE_DIR) / ".." / "shared" / "data" / "nccl";
  if (!fs::exists(folder)) GTEST_SKIP() << "missing " << folder;
  auto read_file = [&](const char* name) {
    std::ifstream in(folder / name);
    std::ostringstream text;
    text << in.rdbuf();
    return read(text.str());
  };
  NcclLog one = read_file("bigscience_n1_32gb_all_reduce_bench.txt");
  EXPECT_EQ(one.processes.size(), 4u);
  EXPECT_THAT(check_nccl(one), IsEmpty());
  NcclLog sixteen = read_file("bigscience_n16_32gb_all_reduce_bench.txt");
  EXPECT_EQ(sixteen.processes.size(), 64u);
  EXPECT_THAT(check_nccl(sixteen),
              Contains(AllOf(finding("nccl_nics_unused"),
                             Field("what", &Finding::what, HasSubstr("2 of 4 NICs")))));
  EXPECT_THAT(sixteen.versions, ElementsAre("2.7.8+cuda10.2"));
  NcclLog four = read_file("bigscience_all_reduce_bench-a100-n4.txt");
  EXPECT_EQ(four.communicators.begin()->second.completed.size(), 32u);
}

}  // namespace
}  // namespace monograph::diagnose
