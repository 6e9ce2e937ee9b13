#include "comm/nccl/gpu_progress.h"

#include <atomic>
#include <cstring>

namespace monograph::comm {
namespace {

// *seen = ++*count, as PTX, which the driver compiles: no compiler is needed for so little.
constexpr char kCount[] = R"ptx(
.version 7.0
.target sm_75
.address_size 64
.visible .entry monograph_count(.param .u64 count, .param .u64 seen) {
  .reg .u64 %count, %seen, %n;
  ld.param.u64 %count, [count];
  ld.param.u64 %seen, [seen];
  ld.global.u64 %n, [%count];
  add.u64 %n, %n, 1;
  st.global.u64 [%count], %n;
  st.volatile.global.u64 [%seen], %n;
  ret;
}
)ptx";

}  // namespace

GpuProgress::GpuProgress(device::cuda::ContextPtr context)
    : module_(context, kCount),
      function_(module_.function("monograph_count")),
      counts_(context, 2 * sizeof(int64_t)),
      seen_(context, 2 * sizeof(int64_t)) {
  std::memset(seen_.data(), 0, seen_.num_bytes());
  const device::cuda::Stream stream(context);
  stream.zero(counts_.address(), counts_.num_bytes());
  stream.synchronize();
}

void GpuProgress::count(const device::cuda::Stream& stream, int which) const {
  CUdeviceptr count = counts_.address() + which * sizeof(int64_t);
  auto seen = reinterpret_cast<CUdeviceptr>(seen_.data() + which * sizeof(int64_t));
  void* arguments[] = {&count, &seen, nullptr};
  device::cuda::launch(stream, function_, {}, arguments);
}

int64_t GpuProgress::read(int which) const {
  auto* const counts = reinterpret_cast<int64_t*>(seen_.data());
  return std::atomic_ref<int64_t>(counts[which]).load(std::memory_order_acquire);
}

}  // namespace monograph::comm
