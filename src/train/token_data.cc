#include "train/token_data.h"

#include <bit>
#include <cstring>

#include "base/error.h"

namespace monograph::train {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr int32_t kMagic16 = 20240520;  // llm.c, dev/data/data_common.py: GPT-2's tokens
constexpr int32_t kMagic32 = 20240801;  // Llama 3's
constexpr int32_t kVersion = 1;
constexpr int64_t kHeaderBytes = 256 * 4;

// Word `index` of the header; 0 where the file is shorter.
int32_t word(const MappedFile& file, int64_t index) {
  int32_t value = 0;
  if (4 * (index + 1) > std::ssize(file.bytes())) return 0;
  std::memcpy(&value, file.bytes().data() + 4 * index, sizeof(value));
  return value;
}

std::span<const std::byte> ids_of(const MappedFile& file) {
  const auto size = std::ssize(file.bytes());
  if (word(file, 0) != kMagic16) {
    if (size == 0) throw_user_error("--data '{}' is empty: give tokens of 16 bits", file.path());
    if (size % 2 == 0) return file.bytes();
    throw_user_error(
        "--data '{}' has {} bytes, an odd number, and a .bin file is read as tokens of 16 bits: is "
        "it cut short, or a text under another name?",
        file.path(), size);
  }
  if (word(file, 1) != kVersion) {
    throw_user_error("--data '{}' is an llm.c token file of version {}: only version {} is known",
                     file.path(), word(file, 1), kVersion);
  }
  const int64_t num_tokens = word(file, 2);
  if (num_tokens < 0 || size != kHeaderBytes + 2 * num_tokens) {
    throw_user_error(
        "--data '{}': its header promises {} tokens, {} bytes in all, but it has {}: it was cut "
        "short or damaged, make it again",
        file.path(), num_tokens, kHeaderBytes + 2 * num_tokens, size);
  }
  return file.bytes().subspan(kHeaderBytes);
}

}  // namespace

bool is_token_file(const MappedFile& file) {
  if (word(file, 0) == kMagic32) {
    throw_user_error(
        "--data '{}' is an llm.c file of 32-bit tokens: only 16-bit ones (magic {}) are read",
        file.path(), kMagic16);
  }
  return word(file, 0) == kMagic16 || file.path().ends_with(".bin");
}

TokenData::TokenData(std::unique_ptr<MappedFile> file, int64_t length, double validation_share)
    : Dataset(file->path(), "token", std::ssize(ids_of(*file)) / 2, length, validation_share),
      file_(std::move(file)),
      ids_(ids_of(*file_)) {}

void TokenData::read(int64_t first, std::span<int64_t> tokens) const {
  const std::byte* const ids = ids_.data() + 2 * first;
  for (size_t i = 0; i < tokens.size(); ++i) {
    uint16_t id = 0;
    std::memcpy(&id, ids + 2 * i, sizeof(id));
    tokens[i] = id;
  }
}

std::string TokenData::vocabulary_advice(int64_t largest) const {
  return fmt::format(
      "use --vocab {} or more (50257 for GPT-2's tokens, 50304 to make it a multiple of 128), or "
      "rename the file if it is a text",
      largest + 1);
}

}  // namespace monograph::train
