#include "runtime/cuda/copy_bandwidth.h"

#include "device/cuda/stream.h"

namespace monograph::runtime {

double measure_gpu_copy_bandwidth(const device::cuda::ContextPtr& context) {
  constexpr int64_t kBytes = int64_t{1} << 30;
  constexpr int kRuns = 8;
  if (context->memory().free_bytes < 3 * kBytes) return 0;
  const device::cuda::DeviceMemory from(context, kBytes), to(context, kBytes);
  const device::cuda::Stream stream(context);
  const device::cuda::Event start(context, true), end(context, true);
  stream.zero(from.address(), kBytes);
  stream.copy(to.address(), from.address(), kBytes);
  stream.record(start);
  for (int i = 0; i < kRuns; ++i) stream.copy(to.address(), from.address(), kBytes);
  stream.record(end);
  end.synchronize();
  return 2.0 * kRuns * kBytes / (end.ms_since(start) / 1e3);
}

}  // namespace monograph::runtime
