#include "diagnose/text_log.h"

#include <gtest/gtest.h>

namespace monograph::diagnose {
namespace {

constexpr std::string_view kHead = "V0804 12:34:12.819000 77 torch/_dynamo/guards.py:1] ";

std::vector<std::pair<int, std::string>> split(std::string_view raw) {
  std::string storage;
  std::vector<Line> lines;
  split_raw_line(raw, 1, storage, lines);
  std::vector<std::pair<int, std::string>> pieces;
  for (const Line& line : lines) {
    pieces.emplace_back(line.rank, std::string(line.text));
  }
  return pieces;
}

using Pieces = std::vector<std::pair<int, std::string>>;

TEST(TextLog, TakesOffLaunchers) {
  const std::string message = std::string(kHead) + "[0/1] [__recompiles] text";
  for (const auto& [prefix, rank] : std::vector<std::pair<std::string, int>>{
           {"", -1},
           {"[rank3]:", 3},
           {"[rank3]: ", 3},
           {"[default2]:", 2},
           {"[0] ", 0},
           {"> ", -1},
           {"12: ", 12},
           {"(WorkerDict pid=912, ip=10.0.0.1) [rank12]:", 12},
           {"[2024-08-21 03:38:02] [rank1]:", 1},
           {"[2024-08-21 03:38:02,117] ", -1},
           {"2024-08-21T03:38:02.117Z [rank1]:", 1},
           {"container-node16: [rank4]:", 4},
           {"[1,3]<stderr>:", 3},
           {"[1,mpirank:5,algo-2]<stdout>:", 5},
           {"2025-03-17T08:15:42.123456789Z stderr F [rank2]:", 2},
           {"\x1b[36m(RayTrainWorker pid=1)\x1b[0m [rank0]:", 0},
       }) {
    EXPECT_EQ(split(prefix + message), (Pieces{{rank, message}})) << prefix;
  }
}

TEST(TextLog, KeepsIndentationAndMessagesThatOnlyLookLikePrefixes) {
  EXPECT_EQ(split("[rank1]:     - 0/0: reason"), (Pieces{{1, "    - 0/0: reason"}}));
  EXPECT_EQ(split("[0/1] [__recompiles] x"), (Pieces{{-1, "[0/1] [__recompiles] x"}}));
  EXPECT_EQ(split("ValueError: bad"), (Pieces{{-1, "ValueError: bad"}}));
  EXPECT_EQ(split("[Rank 1] Watchdog caught"), (Pieces{{-1, "[Rank 1] Watchdog caught"}}));
  EXPECT_EQ(split(""), (Pieces{{-1, ""}}));
}

TEST(TextLog, CutsLinesTornIntoEachOther) {
  const std::string one = std::string(kHead) + "first ";
  const std::string two = std::string(kHead) + "second";
  EXPECT_EQ(split("[rank0]:" + one + "[rank1]:" + two), (Pieces{{0, one}, {1, two}}));
  EXPECT_EQ(split(" 45%|###  | 3/10 [00:01<00:02]" + two),
            (Pieces{{-1, " 45%|###  | 3/10 [00:01<00:02]"}, {-1, two}}));
  EXPECT_EQ(split(" 45%|###  | 3/10 [00:01<00:02][rank1]:" + two),
            (Pieces{{1, " 45%|###  | 3/10 [00:01<00:02]"}, {1, two}}));
  EXPECT_EQ(split("a\rb"), (Pieces{{-1, "a"}, {-1, "b"}}));
}

TEST(TextLog, KnowsTheHeadsOfC10d) {
  const std::string text = "[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] boom";
  EXPECT_EQ(split("[rank1]:" + text), (Pieces{{1, text}}));
  EXPECT_EQ(find_log_head("at 12:34:56.123456 o'clock", 0), std::string_view::npos);
}

TEST(TextLog, RefusesBinaries) {
  EXPECT_TRUE(looks_like_text("plain \xc3\xa9\n", ""));
  EXPECT_FALSE(looks_like_text(std::string_view("\x80\x02}\0\0\0\1", 7), ""));
}

}  // namespace
}  // namespace monograph::diagnose
