#include "runtime/cpu/aligned_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace monograph::runtime {

AlignedMemory::AlignedMemory(int64_t num_bytes) : num_bytes_(num_bytes) {
  check(num_bytes >= 0, "AlignedMemory of {} bytes", num_bytes);
  if (num_bytes == 0) return;
  void* const memory = mmap(nullptr, static_cast<size_t>(num_bytes), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw_user_error(
        "cannot allocate {:.1f} MB ({}): use a smaller batch or model, or a machine with more "
        "memory",
        static_cast<double>(num_bytes) / 1e6, strerror(errno));
  }
  madvise(memory, static_cast<size_t>(num_bytes), MADV_HUGEPAGE);  // a hint; may be refused
  data_ = static_cast<std::byte*>(memory);
}

AlignedMemory::~AlignedMemory() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(num_bytes_));
}

AlignedMemory::AlignedMemory(AlignedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), num_bytes_(std::exchange(other.num_bytes_, 0)) {}

AlignedMemory& AlignedMemory::operator=(AlignedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(num_bytes_, other.num_bytes_);
  return *this;
}

}  // namespace monograph::runtime
