#include "diagnose/nccl/inspector.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "diagnose/source.h"

namespace monograph::diagnose {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Inspector : public testing::Test {
 protected:
  void SetUp() override {
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = fs::path(testing::TempDir()) / ("diagnose_inspector_" + test);
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // As the plugin writes them: one object a line.
  void write_rank(int rank, int microseconds, std::string_view end = "") {
    std::ofstream out(folder_ / fmt::format("inspector-{}.log", rank));
    for (int sequence = 0; sequence < 20; ++sequence) {
      out << fmt::format(
          R"({{"header":{{"id":"0x7f8c","rank":{},"n_ranks":4,"nnodes":1}},"metadata":{{"pid":{}}},)"
          R"("coll_perf":{{"coll":"AllReduce","coll_sn":{},"coll_msg_size_bytes":1048576,)"
          R"("coll_exec_time_us":{},"coll_algobw_gbs":1.0,"coll_busbw_gbs":{}}}}})"
          "\n",
          rank, 100 + rank, sequence, microseconds, 1048.576 * 1.5 / microseconds);
    }
    out << end;
  }

  fs::path folder_;
};

TEST_F(Inspector, NamesTheRankThatComesLast) {
  for (int rank = 0; rank < 4; ++rank) write_rank(rank, rank == 2 ? 100 : 900);
  const Report report = diagnose_paths({folder_.string()}, "test");
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].code, "nccl_straggler");
  EXPECT_THAT(report.findings[0].where.ranks, ElementsAre(2));
  EXPECT_THAT(report.findings[0].what, HasSubstr("last to 20 of 20"));
}

TEST_F(Inspector, EqualRanksAreCleanAndATornEndDoesNoHarm) {
  for (int rank = 0; rank < 4; ++rank) write_rank(rank, 500 + rank, R"({"header":{"id":)");
  const Report report = diagnose_paths({folder_.string()}, "test");
  EXPECT_TRUE(report.findings.empty());
  ASSERT_EQ(report.sections.size(), 1u);
  EXPECT_EQ(report.sections[0].tables[0].rows.size(), 1u);
}

TEST_F(Inspector, ReadsTheExampleOfTheDocumentation) {
  const fs::path example =
      fs::path(MONOGRAPH_SOURCE_DIR) / "../shared/data/nccl/inspector_json_example_from_docs.json";
  if (!fs::exists(example)) GTEST_SKIP() << "missing " << example;
  const Report report = diagnose_paths({example.string()}, "test");
  EXPECT_EQ(exit_status(report), 0);
  ASSERT_EQ(report.sections.size(), 1u);
  const auto& row = report.sections[0].tables[0].rows.at(0);
  EXPECT_EQ(std::get<std::string>(row[0]), "AllReduce");
  EXPECT_EQ(std::get<std::int64_t>(row[1]), 17179869184);
  EXPECT_DOUBLE_EQ(std::get<double>(row[3]), 61974);
  EXPECT_DOUBLE_EQ(std::get<double>(row[5]), 485.119099);
}

}  // namespace
}  // namespace monograph::diagnose
