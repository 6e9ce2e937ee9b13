#include "train/token_data.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "base/error.h"

namespace monograph::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string write_file(const std::string& name, const std::string& bytes) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::vector<uint16_t> counting(int count, int first = 0) {
  std::vector<uint16_t> ids;
  for (int i = 0; i < count; ++i) ids.push_back(static_cast<uint16_t>(first + i));
  return ids;
}

std::string header(int32_t magic, int32_t version, int32_t num_tokens) {
  std::vector<int32_t> words(256);
  words[0] = magic;
  words[1] = version;
  words[2] = num_tokens;
  return bytes_of(words);
}

std::string message_of(const std::string& path, int64_t vocab) {
  try {
    open_dataset(path, 8, vocab);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(TokenData, ReadsRawFilesAndThoseOfLlmC) {
  const std::string raw = write_file("raw.bin", bytes_of(counting(1000, 40000)));
  const std::string with_header =
      write_file("llmc.tokens", header(20240520, 1, 1000) + bytes_of(counting(1000, 40000)));
  for (const std::string& path : {raw, with_header}) {
    const auto data = open_dataset(path, 8, 50257);
    EXPECT_EQ(data->unit(), "token");
    EXPECT_EQ(data->num_training(), 900);
    EXPECT_EQ(data->num_validation(), 100);
    EXPECT_THAT(data->tokens(0, 3), ElementsAre(40000, 40001, 40002));
    const Batch batch = data->training_batch(1, 0, 4);
    for (int64_t i = 0; i < 32; ++i) {
      EXPECT_EQ(batch.targets.get_i64(i), batch.tokens.get_i64(i) + 1);
    }
    EXPECT_EQ(data->validation_batch(0, 2, 3).tokens.get_i64(0), 40900);
    EXPECT_NEAR(data->unigram_entropy(), std::log(100.0), 1e-12);
  }
}

TEST(TokenData, OtherFilesAreTexts) {
  const auto data = open_dataset(write_file("plain.txt", std::string(1000, 'a')), 8, 256);
  EXPECT_EQ(data->unit(), "byte");
  EXPECT_EQ(data->num_training(), 900);
}

TEST(TokenData, NamesTheFirstTokenOutsideTheVocabulary) {
  std::vector<uint16_t> ids(70000, 7);
  ids[66000] = 300;
  ids[66001] = 999;
  const std::string path = write_file("large.bin", bytes_of(ids));
  EXPECT_THAT(message_of(path, 256),
              HasSubstr("token number 66000 is 300, and the model has a vocabulary of 256; the "
                        "largest in the file is 999: use --vocab 1000 or more"));
  EXPECT_EQ(message_of(path, 1000), "no error");
  EXPECT_THAT(message_of(write_file("high.txt", std::string(1000, '\xff')), 128),
              HasSubstr("byte number 0 is 255, and the model has a vocabulary of 128"));
}

TEST(TokenData, RefusesDamagedFiles) {
  const std::string ids = bytes_of(counting(1000));
  EXPECT_THAT(message_of(write_file("odd.bin", std::string(1001, 'a')), 50257),
              HasSubstr("has 1001 bytes, an odd number"));
  EXPECT_THAT(message_of(write_file("cut.bin", header(20240520, 1, 1001) + ids), 50257),
              HasSubstr("its header promises 1001 tokens, 3026 bytes in all, but it has 3024"));
  EXPECT_THAT(message_of(write_file("negative.bin", header(20240520, 1, -1) + ids), 50257),
              HasSubstr("its header promises -1 tokens"));
  EXPECT_THAT(message_of(write_file("header.bin", header(20240520, 1, 0).substr(0, 20)), 50257),
              HasSubstr("its header promises 0 tokens"));
  EXPECT_THAT(message_of(write_file("version.bin", header(20240520, 2, 1000) + ids), 50257),
              HasSubstr("of version 2: only version 1"));
  EXPECT_THAT(message_of(write_file("wide.bin", header(20240801, 7, 500) + ids), 50257),
              HasSubstr("32-bit tokens: only 16-bit ones"));
  EXPECT_THAT(message_of(write_file("empty.bin", ""), 50257), HasSubstr("is empty"));
  EXPECT_THAT(message_of(write_file("short.bin", bytes_of(counting(20))), 50257),
              HasSubstr("too short: 20 tokens, of which 2 for validation; windows of 9 tokens"));
}

}  // namespace
}  // namespace monograph::train
