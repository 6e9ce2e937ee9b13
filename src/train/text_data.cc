#include "train/text_data.h"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/philox.h"

namespace monograph::train {
namespace {

constexpr uint32_t kStream = 0x64617461;  // "data": apart from the streams of dropout

std::string read_text(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    throw_user_error("--data '{}' is a folder: give one file of plain text", path);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_user_error("cannot read --data '{}': {}", path, std::strerror(errno));
  std::stringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

}  // namespace

TextData::TextData(const std::string& path, int64_t length, double validation_share)
    : text_(read_text(path)), length_(length) {
  if (text_.empty()) throw_user_error("--data '{}' is empty: give plain text", path);
  const auto size = static_cast<int64_t>(text_.size());
  const auto num_validation = static_cast<int64_t>(static_cast<double>(size) * validation_share);
  const int64_t shorter = std::min(num_validation, size - num_validation);
  if (shorter < length + 1) {
    throw_user_error(
        "--data '{}' is too short: {} bytes, of which {} for validation; windows of {} "
        "bytes need at least {}",
        path, size, num_validation, length + 1,
        static_cast<int64_t>(std::ceil(static_cast<double>(length + 1) /
                                       std::min(validation_share, 1 - validation_share))));
  }
  training_ = std::string_view(text_).substr(0, size - num_validation);
  validation_ = std::string_view(text_).substr(size - num_validation);
}

Batch TextData::training_batch(int64_t seed, int64_t step, const Rows& rows) const {
  const int64_t num_starts = num_training_bytes() - length_;
  std::vector<int64_t> starts;
  for (int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    // Two draws: one has 24 bits, and a text may be longer.
    const double high = philox_uniform(seed, step, kStream, 2 * row);
    const double low = philox_uniform(seed, step, kStream, 2 * row + 1);
    const double u = high + low * 0x1p-24;
    starts.push_back(static_cast<int64_t>(u * static_cast<double>(num_starts)));
  }
  return windows(training_, starts);
}

Batch TextData::validation_batch(int64_t index, int64_t num_batches, const Rows& rows) const {
  const int64_t last_start = num_validation_bytes() - length_ - 1;
  const int64_t total = num_batches * rows.of;
  std::vector<int64_t> starts;
  for (int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    const int64_t at = index * rows.of + row;
    starts.push_back(total == 1 ? 0 : last_start * at / (total - 1));
  }
  return windows(validation_, starts);
}

Batch TextData::windows(std::string_view text, const std::vector<int64_t>& starts) const {
  const ir::Shape shape = {static_cast<int64_t>(starts.size()), length_};
  std::vector<int64_t> tokens, targets;
  for (const int64_t start : starts) {
    for (int64_t i = 0; i < length_; ++i) {
      tokens.push_back(static_cast<uint8_t>(text[start + i]));
      targets.push_back(static_cast<uint8_t>(text[start + i + 1]));
    }
  }
  return {ir::Literal::from_i64(shape, std::move(tokens)),
          ir::Literal::from_i64(shape, std::move(targets))};
}

double TextData::unigram_entropy() const {
  std::array<int64_t, 256> counts = {};
  for (const char c : validation_) ++counts[static_cast<uint8_t>(c)];
  double entropy = 0;
  for (const int64_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(validation_.size());
    entropy -= share * std::log(share);
  }
  return entropy;
}

}  // namespace monograph::train
