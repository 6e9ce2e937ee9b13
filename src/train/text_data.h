#pragma once

#include <memory>
#include <string>

#include "base/mapped_file.h"
#include "train/dataset.h"

namespace monograph::train {

// Plain text as bytes (vocabulary 256).
class TextData : public Dataset {
 public:
  // UserError when the file is missing, empty, or too short for one window of `length` + 1 bytes in
  // each part. validation_share: of the bytes, in (0, 1).
  TextData(const std::string& path, int64_t length, double validation_share = 0.1);
  TextData(std::unique_ptr<MappedFile> file, int64_t length, double validation_share);

  std::string_view unit() const override { return "byte"; }

 private:
  void read(int64_t first, std::span<int64_t> tokens) const override;
  std::string vocabulary_advice(int64_t largest) const override;

  std::unique_ptr<MappedFile> file_;
};

}  // namespace monograph::train
