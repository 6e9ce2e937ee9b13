#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "diagnose/source.h"

// Whole reports from logs that were cut, shuffled and damaged: nothing may throw or hang, and each
// form of the report stays well-formed.
namespace monograph::diagnose {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> pieces_of_logs() {
  std::vector<std::string> texts;
  for (const auto& entry :
       fs::directory_iterator(fs::path(MONOGRAPH_SOURCE_DIR) / "tests/diagnose")) {
    std::ifstream in(entry.path(), std::ios::binary);
    std::stringstream whole;
    whole << in.rdbuf();
    const std::string text = whole.str();
    const std::size_t end = text.find("#---\n");
    if (end != std::string::npos) texts.push_back(text.substr(end + 5));
  }
  return texts;
}

class GarbledInput : public testing::Test {
 protected:
  void diagnose(const std::string& bytes) {
    const fs::path path = fs::path(testing::TempDir()) / "garbled_input_rank_1.log";
    std::ofstream(path, std::ios::binary) << bytes;
    const Report report = diagnose_paths({path.string()}, "garbled");
    EXPECT_FALSE(to_text(report, Colour::kOff).empty());
    EXPECT_TRUE(to_json(report).ends_with("}\n"));
    EXPECT_TRUE(to_html(report).ends_with("</html>\n"));
    fs::remove(path);
  }

  std::mt19937 random_{20240817};
};

TEST_F(GarbledInput, CutAnywhere) {
  for (const std::string& text : pieces_of_logs()) {
    for (int i = 0; i < 12; ++i) diagnose(text.substr(0, random_() % (text.size() + 1)));
    for (int i = 0; i < 4; ++i) diagnose(text.substr(random_() % text.size()));
  }
}

TEST_F(GarbledInput, BytesChanged) {
  for (std::string text : pieces_of_logs()) {
    for (int round = 0; round < 8; ++round) {
      for (int i = 0; i < 5; ++i) text[random_() % text.size()] = static_cast<char>(random_());
      diagnose(text);
    }
  }
}

TEST_F(GarbledInput, LinesShuffledTogether) {
  const std::vector<std::string> texts = pieces_of_logs();
  std::vector<std::string> lines;
  for (const std::string& text : texts) {
    std::stringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
  }
  for (int round = 0; round < 20; ++round) {
    std::shuffle(lines.begin(), lines.end(), random_);
    std::string all;
    for (const std::string& line : lines) all += line + (random_() % 20 == 0 ? "" : "\n");
    diagnose(all);
  }
}

}  // namespace
}  // namespace monograph::diagnose
