#include "train/dataset.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "train/text_data.h"
#include "train/token_data.h"

namespace monograph::train {
namespace {

constexpr uint32_t kStream = 0x64617461;   // "data": apart from the streams of dropout
constexpr int64_t kChunkTokens = 1 << 15;  // decoded at a time: stays in cache

}  // namespace

Dataset::Dataset(std::string path, std::string_view unit, int64_t num_tokens, int64_t length,
                 double validation_share)
    : path_(std::move(path)), num_tokens_(num_tokens), length_(length) {
  const auto num_validation =
      static_cast<int64_t>(static_cast<double>(num_tokens) * validation_share);
  num_training_ = num_tokens - num_validation;
  if (std::min(num_validation, num_training_) > length) return;
  throw_user_error(
      "--data '{}' is too short: {} {}s, of which {} for validation; windows of {} {}s need at "
      "least {}",
      path_, num_tokens, unit, num_validation, length + 1, unit,
      static_cast<int64_t>(std::ceil(static_cast<double>(length + 1) /
                                     std::min(validation_share, 1 - validation_share))));
}

Batch Dataset::training_batch(int64_t seed, int64_t step, const Rows& rows) const {
  const int64_t num_starts = num_training_ - length_;
  std::vector<int64_t> starts;
  for (int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    // Two draws: one has 24 bits, and a file may be longer.
    const double high = philox_uniform(seed, step, kStream, 2 * row);
    const double low = philox_uniform(seed, step, kStream, 2 * row + 1);
    const double u = high + low * 0x1p-24;
    starts.push_back(static_cast<int64_t>(u * static_cast<double>(num_starts)));
  }
  return windows(starts, rows.slots);
}

Batch Dataset::validation_batch(int64_t index, int64_t num_batches, const Rows& rows) const {
  const int64_t last_start = num_validation() - length_ - 1;
  const int64_t total = num_batches * rows.of;
  std::vector<int64_t> starts;
  for (int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    const int64_t at = index * rows.of + row;
    starts.push_back(num_training_ + (total == 1 ? 0 : last_start * at / (total - 1)));
  }
  return windows(starts, rows.slots);
}

Batch Dataset::windows(const std::vector<int64_t>& starts, int64_t slots) const {
  const ir::Shape shape = {slots, length_};
  std::vector<int64_t> tokens, targets, window(length_ + 1);
  for (const int64_t start : starts) {
    read(start, window);
    tokens.insert(tokens.end(), window.begin(), window.end() - 1);
    targets.insert(targets.end(), window.begin() + 1, window.end());
  }
  tokens.resize(shape.num_elements(), 0);
  targets.resize(shape.num_elements(), kNoTarget);
  return {ir::Literal::from_i64(shape, std::move(tokens)),
          ir::Literal::from_i64(shape, std::move(targets))};
}

std::vector<int64_t> Dataset::tokens(int64_t first, int64_t count) const {
  std::vector<int64_t> tokens(count);
  read(first, tokens);
  return tokens;
}

template <typename Visit>
void Dataset::for_each_chunk(int64_t from, int64_t to, const Visit& visit) const {
  std::vector<int64_t> chunk(kChunkTokens);
  for (int64_t first = from; first < to; first += kChunkTokens) {
    const std::span<int64_t> tokens =
        std::span(chunk).first(std::min<int64_t>(kChunkTokens, to - first));
    read(first, tokens);
    visit(first, std::span<const int64_t>(tokens));
  }
}

double Dataset::unigram_entropy() const {
  std::vector<int64_t> counts;
  for_each_chunk(num_training_, num_tokens_, [&](int64_t, std::span<const int64_t> tokens) {
    const int64_t largest = *std::max_element(tokens.begin(), tokens.end());
    if (largest >= std::ssize(counts)) counts.resize(largest + 1);
    for (const int64_t token : tokens) ++counts[token];
  });
  double entropy = 0;
  for (const int64_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(num_validation());
    entropy -= share * std::log(share);
  }
  return entropy;
}

void Dataset::check_vocabulary(int64_t vocab) const {
  int64_t largest = 0, first_bad = -1, bad_token = 0;
  for_each_chunk(0, num_tokens_, [&](int64_t first, std::span<const int64_t> tokens) {
    largest = std::max(largest, *std::max_element(tokens.begin(), tokens.end()));
    if (first_bad >= 0 || largest < vocab) return;
    const auto bad =
        std::find_if(tokens.begin(), tokens.end(), [&](int64_t token) { return token >= vocab; });
    first_bad = first + (bad - tokens.begin());
    bad_token = *bad;
  });
  if (first_bad < 0) return;
  throw_user_error(
      "--data '{}': {} number {} is {}, and the model has a vocabulary of {}; the largest in the "
      "file is {}: {}",
      path_, unit(), first_bad, bad_token, vocab, largest, vocabulary_advice(largest));
}

std::unique_ptr<Dataset> open_dataset(const std::string& path, int64_t length, int64_t vocab,
                                      double validation_share) {
  auto file = std::make_unique<MappedFile>("--data", path);
  std::unique_ptr<Dataset> data;
  if (is_token_file(*file)) {
    data = std::make_unique<TokenData>(std::move(file), length, validation_share);
  } else {
    data = std::make_unique<TextData>(std::move(file), length, validation_share);
  }
  data->check_vocabulary(vocab);
  return data;
}

}  // namespace monograph::train
