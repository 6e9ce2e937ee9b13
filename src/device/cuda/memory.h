#pragma once

#include <cstddef>
#include <memory>

#include "device/cuda/context.h"

namespace monograph::device::cuda {

using ContextPtr = std::shared_ptr<const Context>;

// The same address as libraries take it; never read on the host.
inline void* to_pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// Memory of the GPU, by plain allocation; 256-byte aligned. Empty: null.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // UserError when the GPU has not as much: names what was wanted and what is free.
  DeviceMemory(ContextPtr context, int64_t num_bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  CUdeviceptr address() const { return address_; }
  std::byte* data() const { return static_cast<std::byte*>(to_pointer(address_)); }
  int64_t num_bytes() const { return num_bytes_; }

 private:
  ContextPtr context_;
  CUdeviceptr address_ = 0;
  int64_t num_bytes_ = 0;
};

// Memory of the host that copies to and from the GPU run beside the host and the kernels.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(ContextPtr context, int64_t num_bytes);
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept { *this = std::move(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  int64_t num_bytes() const { return num_bytes_; }

 private:
  ContextPtr context_;
  std::byte* data_ = nullptr;
  int64_t num_bytes_ = 0;
};

}  // namespace monograph::device::cuda
