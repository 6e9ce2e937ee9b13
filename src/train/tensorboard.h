#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

namespace monograph::train {

// Scalars for TensorBoard: one events.out.tfevents file in a folder. The format is TFRecord
// (length, masked CRC-32C, bytes, masked CRC-32C) around Event messages of protocol buffers.
class TensorBoardWriter {
 public:
  TensorBoardWriter() = default;  // writes nothing
  // UserError when the folder or the file cannot be made.
  explicit TensorBoardWriter(const std::string& folder);

  // UserError when it cannot be written (full disk).
  void scalar(std::string_view tag, int64_t step, double value);

 private:
  void record(const std::string& event);

  std::string path_;
  std::ofstream file_;
};

// CRC-32C (Castagnoli), as RFC 3720 has it.
uint32_t crc32c(std::string_view bytes);

}  // namespace monograph::train
