#include "device/cuda/memory.h"

#include <utility>

#include "base/error.h"

namespace monograph::device::cuda {

DeviceMemory::DeviceMemory(ContextPtr context, int64_t num_bytes)
    : context_(std::move(context)), num_bytes_(num_bytes) {
  if (num_bytes_ == 0) return;
  const CUresult result = context_->api().cuMemAlloc(&address_, num_bytes_);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    const MemoryInfo memory = context_->memory();
    throw_user_error(
        "the GPU has no {:.1f} MB left: {:.1f} of {:.1f} MB are free; use a smaller batch, or end "
        "programs that hold its memory (nvidia-smi lists them)",
        num_bytes_ / 1e6, memory.free_bytes / 1e6, memory.total_bytes / 1e6);
  }
  context_->check(result, fmt::format("cuMemAlloc of {} bytes", num_bytes_));
}

DeviceMemory::~DeviceMemory() {
  if (address_ != 0) context_->api().cuMemFree(address_);
}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(address_, other.address_);
  std::swap(num_bytes_, other.num_bytes_);
  return *this;
}

PinnedMemory::PinnedMemory(ContextPtr context, int64_t num_bytes)
    : context_(std::move(context)), num_bytes_(num_bytes) {
  if (num_bytes_ == 0) return;
  void* data = nullptr;
  context_->check(context_->api().cuMemAllocHost(&data, num_bytes_),
                  fmt::format("cuMemAllocHost of {} bytes", num_bytes_));
  data_ = static_cast<std::byte*>(data);
}

PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) context_->api().cuMemFreeHost(data_);
}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(data_, other.data_);
  std::swap(num_bytes_, other.num_bytes_);
  return *this;
}

}  // namespace monograph::device::cuda
