#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/literal.h"

namespace monograph::train {

// A batch of windows: tokens i64[batch, length]; targets the same windows one token later.
struct Batch {
  ir::Literal tokens, targets;
};

// The target of rows that fill up a batch: no loss has a part of it.
inline constexpr int64_t kNoTarget = -100;

// Some rows of a batch: all of them, or a rank's part.
struct Rows {
  Rows(int64_t all) : count(all), of(all), slots(all) {}
  Rows(int64_t first, int64_t count, int64_t of) : Rows(first, count, of, count) {}
  Rows(int64_t first, int64_t count, int64_t of, int64_t slots)
      : first(first), count(count), of(of), slots(slots) {}
  int64_t first = 0, count = 0;
  int64_t of = 0;     // rows of the whole batch
  int64_t slots = 0;  // rows of the tensors: those after `count` have token 0 and kNoTarget
};

// A file of tokens, read in windows. Its last part is for validation and never trained on.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::string_view unit() const = 0;  // "byte" or "token"

  // Random windows of the training part; each row a function of seed, step and its place in the
  // whole batch.
  Batch training_batch(int64_t seed, int64_t step, const Rows& rows) const;
  // Windows spread evenly over the validation part; the same every time.
  Batch validation_batch(int64_t index, int64_t num_batches, const Rows& rows) const;

  // Entropy of single tokens of the validation part, in nats: the loss of a model without context.
  double unigram_entropy() const;
  // UserError, naming the first one and where it stands, when a token is not below `vocab`.
  void check_vocabulary(int64_t vocab) const;

  int64_t num_training() const { return num_training_; }
  int64_t num_validation() const { return num_tokens_ - num_training_; }
  std::vector<int64_t> tokens(int64_t first, int64_t count) const;

 protected:
  // num_tokens: in the file; length: of a window. UserError when a part is too short for one window
  // and the token after it.
  Dataset(std::string path, std::string_view unit, int64_t num_tokens, int64_t length,
          double validation_share);
  virtual void read(int64_t first, std::span<int64_t> tokens) const = 0;
  // Advice for a file with tokens that are not below `vocab`.
  virtual std::string vocabulary_advice(int64_t largest) const = 0;

 private:
  Batch windows(const std::vector<int64_t>& starts, int64_t slots) const;
  template <typename Visit>
  void for_each_chunk(int64_t from, int64_t to, const Visit& visit) const;

  std::string path_;
  int64_t num_tokens_, num_training_, length_;
};

// Opens a token file (TokenData) or, if it is none, a text (TextData), and checks its vocabulary.
// validation_share: of the tokens, in (0, 1).
std::unique_ptr<Dataset> open_dataset(const std::string& path, int64_t length, int64_t vocab,
                                      double validation_share = 0.1);

}  // namespace monograph::train
