#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "device/cuda/memory.h"

// For tests: a driver whose GPU is this process. Its memory is the host's, kernels are functions
// here, work is done when it is given, except while a stream records: then it is kept, and done at
// each launch of the graph.
namespace monograph::device::cuda {

struct FakeGpu {
  using Kernel = std::function<void(void** arguments)>;

  int64_t free_bytes = 1000, total_bytes = 1000;
  std::map<std::string, Kernel> kernels;  // by the name of their function
  CUresult end_of_recording = CUDA_SUCCESS;
  int64_t uuid = 0;

  bool is_recording = false;
  std::vector<std::function<void()>> recorded;
  int num_launches = 0, num_graph_launches = 0;
  std::map<CUdeviceptr, int64_t> sizes;

  void give(std::function<void()> work) {
    if (is_recording) {
      recorded.push_back(std::move(work));
    } else {
      work();
    }
  }
};

// The one that the functions of fake_driver() work on: each thread has its own.
inline FakeGpu& fake_gpu() {
  thread_local FakeGpu gpu;
  return gpu;
}

inline void add_device(Driver& api) {
  api.cuGetErrorName = [](CUresult, const char** name) {
    *name = "CUDA_ERROR_FAKE";
    return CUDA_SUCCESS;
  };
  api.cuGetErrorString = [](CUresult, const char** text) {
    *text = "as planned";
    return CUDA_SUCCESS;
  };
  api.cuDeviceGetCount = [](int* count) {
    *count = 1;
    return CUDA_SUCCESS;
  };
  api.cuDeviceGet = [](CUdevice* device, int ordinal) {
    *device = ordinal;
    return CUDA_SUCCESS;
  };
  api.cuDeviceGetName = [](char* name, int, CUdevice) {
    std::strcpy(name, "Fake GPU");
    return CUDA_SUCCESS;
  };
  api.cuDeviceTotalMem = [](size_t* total, CUdevice) {
    *total = fake_gpu().total_bytes;
    return CUDA_SUCCESS;
  };
  api.cuDeviceGetUuid = [](CUuuid* uuid, CUdevice) {
    std::memcpy(uuid->bytes, &fake_gpu().uuid, sizeof fake_gpu().uuid);
    return CUDA_SUCCESS;
  };
  api.cuDeviceGetAttribute = [](int* value, CUdevice_attribute attribute, CUdevice) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0;
    return CUDA_SUCCESS;
  };
  api.cuDevicePrimaryCtxRetain = [](CUcontext*, CUdevice) { return CUDA_SUCCESS; };
  api.cuDevicePrimaryCtxRelease = [](CUdevice) { return CUDA_SUCCESS; };
  api.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  api.cuCtxSynchronize = [] { return CUDA_SUCCESS; };
}

inline void add_memory(Driver& api) {
  api.cuMemGetInfo = [](size_t* free, size_t* total) {
    *free = fake_gpu().free_bytes;
    *total = fake_gpu().total_bytes;
    return CUDA_SUCCESS;
  };
  api.cuMemAlloc = [](CUdeviceptr* address, size_t num_bytes) {
    const auto wanted = static_cast<int64_t>(num_bytes);
    if (wanted > fake_gpu().free_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = reinterpret_cast<CUdeviceptr>(std::malloc(num_bytes));
    fake_gpu().free_bytes -= wanted;
    fake_gpu().sizes[*address] = wanted;
    return CUDA_SUCCESS;
  };
  api.cuMemFree = [](CUdeviceptr address) {
    fake_gpu().free_bytes += fake_gpu().sizes[address];
    std::free(to_pointer(address));
    return CUDA_SUCCESS;
  };
  api.cuMemAllocHost = [](void** data, size_t num_bytes) {
    *data = std::malloc(num_bytes);
    return CUDA_SUCCESS;
  };
  api.cuMemFreeHost = [](void* data) {
    std::free(data);
    return CUDA_SUCCESS;
  };
}

inline void add_copies(Driver& api) {
  api.cuMemcpyHtoDAsync = [](CUdeviceptr to, const void* from, size_t num_bytes, CUstream) {
    std::memcpy(to_pointer(to), from, num_bytes);
    return CUDA_SUCCESS;
  };
  api.cuMemcpyDtoHAsync = [](void* to, CUdeviceptr from, size_t num_bytes, CUstream) {
    std::memcpy(to, to_pointer(from), num_bytes);
    return CUDA_SUCCESS;
  };
  api.cuMemcpyDtoDAsync = [](CUdeviceptr to, CUdeviceptr from, size_t num_bytes, CUstream) {
    std::memcpy(to_pointer(to), to_pointer(from), num_bytes);
    return CUDA_SUCCESS;
  };
  api.cuMemsetD8Async = [](CUdeviceptr to, unsigned char value, size_t num_bytes, CUstream) {
    std::memset(to_pointer(to), value, num_bytes);
    return CUDA_SUCCESS;
  };
}

inline void add_streams(Driver& api) {
  api.cuStreamCreateWithPriority = [](CUstream*, unsigned, int) { return CUDA_SUCCESS; };
  api.cuStreamDestroy = [](CUstream) { return CUDA_SUCCESS; };
  api.cuStreamSynchronize = [](CUstream) { return CUDA_SUCCESS; };
  api.cuStreamWaitEvent = [](CUstream, CUevent, unsigned) { return CUDA_SUCCESS; };
  api.cuEventCreate = [](CUevent*, unsigned) { return CUDA_SUCCESS; };
  api.cuEventDestroy = [](CUevent) { return CUDA_SUCCESS; };
  api.cuEventRecord = [](CUevent, CUstream) { return CUDA_SUCCESS; };
  api.cuEventSynchronize = [](CUevent) { return CUDA_SUCCESS; };
  api.cuEventElapsedTime = [](float* ms, CUevent, CUevent) {
    *ms = 1;
    return CUDA_SUCCESS;
  };
}

inline void add_launches(Driver& api) {
  api.cuModuleLoadData = [](CUmodule*, const void*) { return CUDA_SUCCESS; };
  api.cuModuleUnload = [](CUmodule) { return CUDA_SUCCESS; };
  api.cuModuleGetFunction = [](CUfunction* function, CUmodule, const char* name) {
    const auto found = fake_gpu().kernels.find(name);
    if (found == fake_gpu().kernels.end()) return CUDA_ERROR_NOT_FOUND;
    *function = reinterpret_cast<CUfunction>(&found->second);
    return CUDA_SUCCESS;
  };
  // The arguments are pointers to addresses, which the caller may change after the launch.
  api.cuLaunchKernel = [](CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, unsigned, CUstream, void** arguments, void**) {
    constexpr size_t kMaxArguments = 8;
    std::vector<CUdeviceptr> values;
    for (size_t i = 0; i < kMaxArguments && arguments[i] != nullptr; ++i) {
      values.push_back(*static_cast<const CUdeviceptr*>(arguments[i]));
    }
    fake_gpu().give([kernel = reinterpret_cast<FakeGpu::Kernel*>(function), values]() mutable {
      std::vector<void*> pointers;
      for (CUdeviceptr& value : values) pointers.push_back(to_pointer(value));
      (*kernel)(pointers.data());
      ++fake_gpu().num_launches;
    });
    return CUDA_SUCCESS;
  };
}

inline void add_graphs(Driver& api) {
  api.cuStreamBeginCapture = [](CUstream, CUstreamCaptureMode) {
    fake_gpu().is_recording = true;
    fake_gpu().recorded.clear();
    return CUDA_SUCCESS;
  };
  api.cuStreamEndCapture = [](CUstream, CUgraph*) {
    fake_gpu().is_recording = false;
    return fake_gpu().end_of_recording;
  };
  api.cuGraphGetNodes = [](CUgraph, CUgraphNode*, size_t* count) {
    *count = fake_gpu().recorded.size();
    return CUDA_SUCCESS;
  };
  api.cuGraphInstantiateWithFlags = [](CUgraphExec*, CUgraph, unsigned long long) {
    return CUDA_SUCCESS;
  };
  api.cuGraphLaunch = [](CUgraphExec, CUstream) {
    ++fake_gpu().num_graph_launches;
    for (const auto& work : fake_gpu().recorded) work();
    return CUDA_SUCCESS;
  };
}

// Its table, and a fresh GPU behind it.
inline Driver fake_driver() {
  fake_gpu() = {};
  Driver api;
  add_device(api);
  add_memory(api);
  add_copies(api);
  add_streams(api);
  add_launches(api);
  add_graphs(api);
  return api;
}

}  // namespace monograph::device::cuda
