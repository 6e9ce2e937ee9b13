#pragma once

#include <cstddef>
#include <cstdint>

namespace monograph::runtime {

// Zeroed memory that begins at a page, in large pages where the system gives them.
class AlignedMemory {
 public:
  AlignedMemory() = default;
  explicit AlignedMemory(int64_t num_bytes);  // UserError when the system has not that much
  ~AlignedMemory();
  AlignedMemory(AlignedMemory&& other) noexcept;
  AlignedMemory& operator=(AlignedMemory&& other) noexcept;

  std::byte* data() const { return data_; }  // null when empty
  int64_t num_bytes() const { return num_bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t num_bytes_ = 0;
};

}  // namespace monograph::runtime
