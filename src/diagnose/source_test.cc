#include "diagnose/source.h"
#include "diagnose/line_scan.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace monograph::diagnose {
namespace {

namespace fs = std::filesystem;

class Source : public testing::Test {
 protected:
  void SetUp() override {
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = fs::path(testing::TempDir()) / ("diagnose_source_" + test);
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, std::string_view bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return (folder_ / name).string();
  }

  std::string write_gzip(const std::string& name, std::string_view bytes) {
    const std::string path = (folder_ / name).string();
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path;
  }

  fs::path folder_;
};

std::vector<std::string> lines_of(Input& input) {
  std::vector<std::string> lines;
  for (std::string piece; input.next_lines(piece);) {
    for_each_line(piece, [&](std::string_view line) { lines.emplace_back(line); });
  }
  return lines;
}

TEST_F(Source, ReadsLinesPlainAndGzip) {
  const std::string text = "one\r\ntwo\n\nlast without end";
  const std::vector<std::string> expected = {"one", "two", "", "last without end"};
  Input plain(write("a.log", text));
  EXPECT_EQ(plain.head(), text);
  EXPECT_FALSE(plain.is_compressed());
  EXPECT_EQ(lines_of(plain), expected);
  Input packed(write_gzip("a.log.gz", text));
  EXPECT_TRUE(packed.is_compressed());
  EXPECT_EQ(packed.head(), text);
  EXPECT_EQ(lines_of(packed), expected);
}

TEST_F(Source, ReadsLinesLongerThanItsBuffer) {
  const std::string text = std::string(3'000'000, 'x') + "\nend\n" + std::string(900'000, 'y');
  Input input(write("long.log", text));
  const auto lines = lines_of(input);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].size(), 3'000'000u);
  EXPECT_EQ(lines[1], "end");
  EXPECT_EQ(lines[2].size(), 900'000u);
  EXPECT_EQ(input.bytes_read(), static_cast<std::int64_t>(text.size()));
}

TEST_F(Source, PiecesKeepTogetherWhatBelongsTogether) {
  const std::string text = "a\n\tb\n\tc\n\n\td\ne\n\nf\n\tg";
  const std::string path = write("pieces.log", text);
  for (std::size_t piece_bytes = 1; piece_bytes < 20; ++piece_bytes) {
    Input input(path, {.piece_bytes = piece_bytes});
    std::string all;
    const auto may_begin = [](std::string_view rest) { return !rest.starts_with('\t'); };
    for (std::string piece; input.next_lines(piece, may_begin); all += piece) {
      EXPECT_NE(piece.front(), '\t');
    }
    EXPECT_EQ(all, text);
  }
}

TEST_F(Source, TruncatedGzipKeepsItsBeginning) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += std::to_string(i * 7919) + "\n";
  const std::string path = write_gzip("t.gz", text);
  fs::resize_file(path, fs::file_size(path) / 2);
  Input input(path);
  EXPECT_GT(lines_of(input).size(), 1000u);
  EXPECT_TRUE(input.is_truncated());
}

TEST_F(Source, LimitsWhatIsReadWhole) {
  Input input(write("big", std::string(3 << 20, 'x')));
  EXPECT_THROW(input.read_all(1 << 20), UserError);
  EXPECT_THROW(Input((folder_ / "absent").string()), UserError);
  EXPECT_THROW(Input(folder_.string()), UserError);
}

TEST_F(Source, FindsFilesInFoldersOnce) {
  write("b.log", "");
  write("a.log", "");
  write(".hidden", "");
  fs::create_directory(folder_ / "deep");
  write("deep/c.log", "");
  Report report;
  const std::string a = (folder_ / "a.log").string();
  EXPECT_EQ(find_files({a, folder_.string(), "/no/such/file"}, report),
            (std::vector<std::string>{a, (folder_ / "b.log").string(),
                                      (folder_ / "deep/c.log").string()}));
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].code, "unreadable");
}

TEST(SourceName, SaysTheRank) {
  EXPECT_EQ(rank_of_name("/x/dedicated_log_torch_trace_rank_12_abc.log"), 12);
  EXPECT_EQ(rank_of_name("mr4_rank3.txt"), 3);
  EXPECT_EQ(rank_of_name("Rank-7.json.gz"), 7);
  EXPECT_EQ(rank_of_name("/rank5/r2.log"), 2);
  EXPECT_EQ(rank_of_name("dedicated_log_torch_trace_avh5fwup.log"), -1);
  EXPECT_EQ(rank_of_name("user_logs/std_log_process_03.txt"), 3);
  EXPECT_EQ(rank_of_name("mr4.log"), -1);
  EXPECT_EQ(rank_of_name("/logs/rank_4/stderr.log"), 4);
  EXPECT_EQ(rank_of_name("/logs/none_x/attempt_0/3/stderr.log"), 3);
  EXPECT_EQ(rank_of_name("/logs/2026/3/stderr.log"), -1);
}

TEST(SourceName, SaysTheJobsFolder) {
  EXPECT_EQ(job_folder("/logs/run/a.log"), "/logs/run");
  EXPECT_EQ(job_folder("/logs/rank_4/stderr.log"), "/logs");
  EXPECT_EQ(job_folder("/logs/attempt_0/3/stderr.log"), "/logs/attempt_0");
  EXPECT_EQ(job_folder("a.log"), "");
}

TEST_F(Source, NothingReadableIsStatusTwo) {
  EXPECT_EQ(exit_status(diagnose_paths({"/no/such/file"}, "t")), 2);
  EXPECT_EQ(exit_status(diagnose_paths({write("x", std::string(100, '\0'))}, "t")), 2);
  EXPECT_EQ(exit_status(diagnose_paths({write("y.log", "hello\n")}, "t")), 0);
  const Report empty = diagnose_paths({write("z.log", "")}, "t");
  EXPECT_EQ(exit_status(empty), 0);
  ASSERT_EQ(empty.findings.size(), 1u);
  EXPECT_EQ(empty.findings[0].code, "empty");
}

}  // namespace
}  // namespace monograph::diagnose
