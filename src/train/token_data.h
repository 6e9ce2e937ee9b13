#pragma once

#include <memory>
#include <string>

#include "base/mapped_file.h"
#include "train/dataset.h"

namespace monograph::train {

// Token ids of 16 bits, little-endian: a raw file as nanoGPT's prepare.py writes it, or one of
// llm.c, which begins with 256 words of 32 bits: magic 20240520, version 1, number of tokens.
class TokenData : public Dataset {
 public:
  // UserError when the header and the size of the file disagree, or it is too short (see Dataset).
  TokenData(std::unique_ptr<MappedFile> file, int64_t length, double validation_share = 0.1);

  std::string_view unit() const override { return "token"; }

 private:
  void read(int64_t first, std::span<int64_t> tokens) const override;
  std::string vocabulary_advice(int64_t largest) const override;

  std::unique_ptr<MappedFile> file_;
  std::span<const std::byte> ids_;
};

// It has llm.c's header, or a name that ends in .bin. UserError for an llm.c file of 32-bit tokens.
bool is_token_file(const MappedFile& file);

}  // namespace monograph::train
