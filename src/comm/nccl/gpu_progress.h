#pragma once

#include <cstdint>

#include "device/cuda/module.h"

namespace monograph::comm {

// How many collectives of a group the GPU has begun and ended. It counts them itself, in the stream
// and so in a replayed graph as well, and writes each count to memory of the host: a GPU that hangs
// still says where.
class GpuProgress {
 public:
  explicit GpuProgress(device::cuda::ContextPtr context);

  void count_begun(const device::cuda::Stream& stream) const { count(stream, 0); }
  void count_ended(const device::cuda::Stream& stream) const { count(stream, 1); }
  int64_t num_begun() const { return read(0); }
  int64_t num_ended() const { return read(1); }

 private:
  void count(const device::cuda::Stream& stream, int which) const;
  int64_t read(int which) const;

  const device::cuda::Module module_;
  const CUfunction function_;
  const device::cuda::DeviceMemory counts_;
  const device::cuda::PinnedMemory seen_;
};

}  // namespace monograph::comm
