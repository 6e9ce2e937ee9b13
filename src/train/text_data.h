#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/literal.h"

namespace monograph::train {

// A batch of windows: tokens i64[batch, length]; targets the same windows one byte later.
struct Batch {
  ir::Literal tokens, targets;
};

// Plain text as bytes (vocabulary 256). The last part is for validation and never trained on.
class TextData {
 public:
  // UserError when the file is missing, empty, or too short for one window of `length` + 1 bytes in
  // each part. validation_share: of the bytes, in (0, 1).
  TextData(const std::string& path, int64_t length, double validation_share = 0.1);

  // Some rows of a batch: all of them, or a rank's part.
  struct Rows {
    Rows(int64_t all) : count(all), of(all) {}
    Rows(int64_t first, int64_t count, int64_t of) : first(first), count(count), of(of) {}
    int64_t first = 0, count = 0;
    int64_t of = 0;  // rows of the whole batch
  };
  // Random windows of the training part; each row a function of seed, step and its place in the
  // whole batch.
  Batch training_batch(int64_t seed, int64_t step, const Rows& rows) const;
  // Windows spread evenly over the validation part; the same every time.
  Batch validation_batch(int64_t index, int64_t num_batches, const Rows& rows) const;

  // Entropy of single bytes of the validation part, in nats: the loss of a model without context.
  double unigram_entropy() const;
  int64_t num_training_bytes() const { return static_cast<int64_t>(training_.size()); }
  int64_t num_validation_bytes() const { return static_cast<int64_t>(validation_.size()); }
  std::string_view training_text() const { return training_; }

 private:
  Batch windows(std::string_view text, const std::vector<int64_t>& starts) const;

  std::string text_;
  std::string_view training_, validation_;
  int64_t length_;
};

}  // namespace monograph::train
