#include "train/text_data.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace monograph::train {
namespace {

using ::testing::HasSubstr;

std::string write_file(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string message_of(const std::string& path, int64_t length) {
  try {
    TextData data(path, length);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string counting_text(int size) {
  std::string text;
  for (int i = 0; i < size; ++i) text += static_cast<char>(i % 251);
  return text;
}

TEST(TextData, RefusesWhatIsNoText) {
  EXPECT_THAT(message_of("/nowhere/text", 8),
              HasSubstr("cannot read --data '/nowhere/text': No such"));
  EXPECT_THAT(message_of(::testing::TempDir(), 8), HasSubstr("is a folder"));
  EXPECT_THAT(message_of(write_file("empty", ""), 8), HasSubstr("is empty"));
  EXPECT_THAT(message_of(write_file("short", std::string(50, 'a')), 8),
              HasSubstr("too short: 50 bytes, of which 5 for validation; windows of 9 bytes need "
                        "at least 90"));
}

TEST(TextData, TargetsAreTheNextBytes) {
  const TextData data(write_file("counting", counting_text(1000)), 8);
  const Batch batch = data.training_batch(1, 0, 4);
  for (int64_t i = 0; i < 32; ++i) {
    EXPECT_EQ(batch.targets.get_i64(i), (batch.tokens.get_i64(i) + 1) % 251);
  }
}

TEST(TextData, BatchesAreAFunctionOfSeedAndStep) {
  const TextData data(write_file("counting", counting_text(1000)), 8);
  EXPECT_EQ(data.training_batch(1, 5, 4).tokens, data.training_batch(1, 5, 4).tokens);
  EXPECT_NE(data.training_batch(1, 5, 4).tokens, data.training_batch(1, 6, 4).tokens);
  EXPECT_NE(data.training_batch(1, 5, 4).tokens, data.training_batch(2, 5, 4).tokens);
}

TEST(TextData, ValidationCoversTheLastPartAndNothingElse) {
  std::string text(900, 'a');
  text += std::string(50, 'b') + std::string(50, 'c');
  const TextData data(write_file("parts", text), 8);
  EXPECT_EQ(data.num_training(), 900);
  EXPECT_EQ(data.validation_batch(0, 2, 3).tokens.get_i64(0), 'b');
  const Batch last = data.validation_batch(1, 2, 3);
  EXPECT_EQ(last.targets.get_i64(23), 'c');
  EXPECT_NEAR(data.unigram_entropy(), std::log(2.0), 1e-12);
}

}  // namespace
}  // namespace monograph::train
