#include "runtime/cuda/timeline.h"

#include <cuda.h>
#include <cupti.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "base/dynamic_library.h"
#include "base/error.h"

namespace monograph::runtime {
namespace {

constexpr size_t kBufferBytes = size_t{4} << 20;
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};

struct Cupti {
  DynamicLibrary library{"the GPU's timeline is recorded by CUPTI",
                         cuda_library_candidates({"libcupti.so.13"}),
                         "install CUPTI, or add its folder to LD_LIBRARY_PATH"};
// NOLINTBEGIN(bugprone-macro-parentheses): declarations
#define MONOGRAPH_CUPTI(name) decltype(&::name) name = library.function<decltype(::name)>(#name);
  MONOGRAPH_CUPTI(cuptiActivityRegisterCallbacks)
  MONOGRAPH_CUPTI(cuptiActivityEnable)
  MONOGRAPH_CUPTI(cuptiActivityDisable)
  MONOGRAPH_CUPTI(cuptiActivityFlushAll)
  MONOGRAPH_CUPTI(cuptiActivityGetNextRecord)
  MONOGRAPH_CUPTI(cuptiGetResultString)
#undef MONOGRAPH_CUPTI
  // NOLINTEND(bugprone-macro-parentheses)

  void check(CUptiResult result, const char* call) const {
    if (result == CUPTI_SUCCESS) return;
    const char* text = "unknown";
    cuptiGetResultString(result, &text);
    throw_user_error("{} gave {} ({}): end other profilers, or run without --timeline", call, text,
                     static_cast<int>(result));
  }
};

const Cupti& cupti() {
  static const Cupti* const loaded = new Cupti;  // never closed: its exit handlers still run
  return *loaded;
}

// CUPTI's callbacks carry no pointer of ours.
std::mutex records_mutex;
std::vector<GpuActivity> records;

void add(const CUpti_Activity* record) {
  GpuActivity activity;
  const auto take = [&](const auto* from) {
    activity.start_ns = static_cast<int64_t>(from->start);
    activity.end_ns = static_cast<int64_t>(from->end);
    activity.stream = from->streamId;
  };
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    take(kernel);
    activity.name = kernel->name != nullptr ? kernel->name : "?";
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
    take(copy);
    activity.category = "copy";
    activity.name = copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? "copy to the GPU"
                    : copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "copy to the host"
                                                                        : "copy on the GPU";
    activity.num_bytes = static_cast<int64_t>(copy->bytes);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto* fill = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
    take(fill);
    activity.category = "fill";
    activity.name = "fill";
    activity.num_bytes = static_cast<int64_t>(fill->bytes);
  } else {
    return;
  }
  const std::lock_guard lock(records_mutex);
  records.push_back(std::move(activity));
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* num_bytes, size_t* max_num_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(64, kBufferBytes));
  *num_bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *max_num_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  CUpti_Activity* record = nullptr;
  while (cupti().cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    add(record);
  }
  std::free(buffer);
}

}  // namespace

GpuTimeline::GpuTimeline() {
  const Cupti& api = cupti();
  {
    const std::lock_guard lock(records_mutex);
    records.clear();
  }
  api.check(api.cuptiActivityRegisterCallbacks(give_buffer, take_buffer),
            "cuptiActivityRegisterCallbacks");
  for (const CUpti_ActivityKind kind : kKinds) {
    api.check(api.cuptiActivityEnable(kind), "cuptiActivityEnable");
  }
}

GpuTimeline::~GpuTimeline() {
  for (const CUpti_ActivityKind kind : kKinds) cupti().cuptiActivityDisable(kind);
}

std::vector<GpuActivity> GpuTimeline::stop() {
  const Cupti& api = cupti();
  for (const CUpti_ActivityKind kind : kKinds) {
    api.check(api.cuptiActivityDisable(kind), "cuptiActivityDisable");
  }
  api.check(api.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  const std::lock_guard lock(records_mutex);
  std::vector<GpuActivity> result = std::move(records);
  records.clear();
  std::sort(result.begin(), result.end(),
            [](const GpuActivity& x, const GpuActivity& y) { return x.start_ns < y.start_ns; });
  return result;
}

}  // namespace monograph::runtime
