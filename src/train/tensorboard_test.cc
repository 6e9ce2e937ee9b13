#include "train/tensorboard.h"

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace monograph::train {
namespace {

TEST(TensorBoard, ChecksumIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);  // RFC 3720's check value
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
}

TEST(TensorBoard, RecordsHaveLengthsAndMaskedChecksums) {
  const std::string folder = ::testing::TempDir() + "/tensorboard";
  std::filesystem::remove_all(folder);
  TensorBoardWriter writer(folder);
  writer.scalar("train/loss", 7, 2.5);
  const auto entry = std::filesystem::directory_iterator(folder)->path();
  std::ifstream file(entry, std::ios::binary);
  std::stringstream stream;
  stream << file.rdbuf();
  const std::string bytes = stream.str();
  size_t at = 0;
  std::vector<std::string> records;
  while (at < bytes.size()) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, 8);
    uint32_t stored = 0;
    std::memcpy(&stored, bytes.data() + at + 8, 4);
    const uint32_t crc = crc32c(bytes.substr(at, 8));
    EXPECT_EQ(stored, ((crc >> 15) | (crc << 17)) + 0xa282ead8u);
    records.push_back(bytes.substr(at + 12, length));
    at += 12 + length + 4;
  }
  EXPECT_EQ(at, bytes.size());
  ASSERT_EQ(records.size(), 2u);
  EXPECT_THAT(records[0], ::testing::HasSubstr("brain.Event:2"));
  EXPECT_THAT(records[1], ::testing::HasSubstr("train/loss"));
}

TEST(TensorBoard, AFolderThatCannotBeMadeIsNamed) {
  EXPECT_THROW(TensorBoardWriter("/dev/null/x"), UserError);
}

}  // namespace
}  // namespace monograph::train
