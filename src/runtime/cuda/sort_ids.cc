#include "runtime/cuda/sort_ids.h"

#include <limits>

#include "base/error.h"

namespace monograph::runtime {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kDigits = 256;

template <typename... Arguments>
void launch(const device::cuda::Stream& stream, CUfunction function, unsigned num_blocks,
            unsigned num_threads, Arguments... arguments) {
  void* pointers[] = {&arguments...};
  device::cuda::launch(stream, function, {{num_blocks, 1, 1}, {num_threads, 1, 1}, 0}, pointers);
}

}  // namespace

CudaSortIds::CudaSortIds(const ir::SortIdsStep& step, CUdeviceptr ids, CUdeviceptr order,
                         CUdeviceptr offsets, CUdeviceptr error, const BuiltinKernels& kernels,
                         const device::cuda::ContextPtr& context)
    : step_(step), ids_(ids), order_(order), offsets_(offsets), error_(error), kernels_(kernels) {
  check(step.num_positions <= std::numeric_limits<int32_t>::max() - kTile &&
            step.num_ids < std::numeric_limits<int32_t>::max(),
        "sort_ids of {} positions, {} ids", step.num_positions, step.num_ids);
  while (num_passes_ < 4 && (step.num_ids - 1) >> (8 * num_passes_) != 0) ++num_passes_;
  for (device::cuda::DeviceMemory& keys : keys_) keys = {context, step.num_positions * 4};
  for (device::cuda::DeviceMemory& each : orders_) each = {context, step.num_positions * 4};
  counts_ = {context, int64_t{kDigits} * num_tiles() * 4};
}

void CudaSortIds::run(const device::cuda::Stream& stream) const {
  const auto count = static_cast<int>(step_.num_positions);
  const auto blocks = [](int64_t n) { return static_cast<unsigned>((n - 1) / kThreads + 1); };
  const auto tiles = static_cast<unsigned>(num_tiles());
  if (count > 0) {
    const bool is_long = step_.ids_dtype == ir::DType::kI64;
    launch(stream, is_long ? kernels_.steps().sort_read_i64 : kernels_.steps().sort_read_i32,
           blocks(count), kThreads, ids_, count, static_cast<long long>(step_.num_ids),
           keys_[0].address(), orders_[0].address(), error_);
    for (int pass = 0; pass < num_passes_; ++pass) {
      const int from = pass % 2, to = 1 - from, shift = 8 * pass;
      const CUdeviceptr order = pass + 1 == num_passes_ ? order_ : orders_[to].address();
      launch(stream, kernels_.steps().sort_count, tiles, kThreads, keys_[from].address(), count,
             shift, counts_.address());
      launch(stream, kernels_.steps().sort_scan, 1, 1024, counts_.address(),
             kDigits * static_cast<int>(tiles));
      launch(stream, kernels_.steps().sort_scatter, tiles, kThreads, keys_[from].address(),
             orders_[from].address(), count, shift, counts_.address(), keys_[to].address(), order);
    }
  }
  launch(stream, kernels_.steps().sort_offsets, blocks(step_.num_ids + 1), kThreads,
         keys_[num_passes_ % 2].address(), count, static_cast<int>(step_.num_ids), offsets_);
}

}  // namespace monograph::runtime
