#pragma once

#include "runtime/cuda/builtin_kernels.h"

namespace monograph::runtime {

// A SortIdsStep bound to memory: a stable radix sort, so that the order never depends on timing.
class CudaSortIds {
 public:
  // `error`: i64 on the GPU, -1; takes the least position whose id is out of range.
  CudaSortIds(const ir::SortIdsStep& step, CUdeviceptr ids, CUdeviceptr order, CUdeviceptr offsets,
              CUdeviceptr error, const BuiltinKernels& kernels,
              const device::cuda::ContextPtr& context);

  void run(const device::cuda::Stream& stream) const;

 private:
  static constexpr int kTile = 2048;  // as in the kernels
  int num_tiles() const { return static_cast<int>((step_.num_positions + kTile - 1) / kTile); }

  ir::SortIdsStep step_;
  CUdeviceptr ids_, order_, offsets_, error_;
  const BuiltinKernels& kernels_;
  int num_passes_ = 1;
  device::cuda::DeviceMemory keys_[2], orders_[2], counts_;
};

}  // namespace monograph::runtime
