#include "train/text_data.h"

#include "base/error.h"

namespace monograph::train {
namespace {

int64_t num_bytes(const MappedFile& file) {
  if (file.bytes().empty()) throw_user_error("--data '{}' is empty: give plain text", file.path());
  return std::ssize(file.bytes());
}

}  // namespace

TextData::TextData(const std::string& path, int64_t length, double validation_share)
    : TextData(std::make_unique<MappedFile>("--data", path), length, validation_share) {}

TextData::TextData(std::unique_ptr<MappedFile> file, int64_t length, double validation_share)
    : Dataset(file->path(), "byte", num_bytes(*file), length, validation_share),
      file_(std::move(file)) {}

void TextData::read(int64_t first, std::span<int64_t> tokens) const {
  const std::byte* const bytes = file_->bytes().data() + first;
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint8_t>(bytes[i]);
}

std::string TextData::vocabulary_advice(int64_t largest) const {
  return fmt::format("use --vocab {} or more; bytes need 256", largest + 1);
}

}  // namespace monograph::train
