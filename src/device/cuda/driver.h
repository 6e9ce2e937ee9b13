#pragma once

#include <cuda.h>

#include <string>
#include <string_view>

namespace monograph::device::cuda {

#define MONOGRAPH_CUDA_DRIVER(X) \
  X(cuInit)                      \
  X(cuDriverGetVersion)          \
  X(cuGetErrorName)              \
  X(cuGetErrorString)            \
  X(cuDeviceGetCount)            \
  X(cuDeviceGet)                 \
  X(cuDeviceGetName)             \
  X(cuDeviceGetAttribute)        \
  X(cuDeviceTotalMem)            \
  X(cuDeviceGetUuid)             \
  X(cuDevicePrimaryCtxRetain)    \
  X(cuDevicePrimaryCtxRelease)   \
  X(cuCtxSetCurrent)             \
  X(cuCtxSynchronize)            \
  X(cuMemGetInfo)                \
  X(cuMemAlloc)                  \
  X(cuMemFree)                   \
  X(cuMemAllocHost)              \
  X(cuMemFreeHost)               \
  X(cuMemcpyHtoDAsync)           \
  X(cuMemcpyDtoHAsync)           \
  X(cuMemcpyDtoDAsync)           \
  X(cuMemsetD8Async)             \
  X(cuMemsetD32Async)            \
  X(cuStreamCreateWithPriority)  \
  X(cuStreamDestroy)             \
  X(cuStreamSynchronize)         \
  X(cuStreamWaitEvent)           \
  X(cuStreamBeginCapture)        \
  X(cuStreamEndCapture)          \
  X(cuEventCreate)               \
  X(cuEventDestroy)              \
  X(cuEventRecord)               \
  X(cuEventSynchronize)          \
  X(cuEventQuery)                \
  X(cuEventElapsedTime)          \
  X(cuModuleLoadData)            \
  X(cuModuleUnload)              \
  X(cuModuleGetFunction)         \
  X(cuFuncSetAttribute)          \
  X(cuLaunchKernel)              \
  X(cuGraphInstantiateWithFlags) \
  X(cuGraphLaunch)               \
  X(cuGraphGetNodes)             \
  X(cuGraphExecDestroy)          \
  X(cuGraphDestroy)

// The functions of the driver that we call, opened at run time: nothing links to libcuda, so one
// binary starts with and without a GPU. Tests fill the table with functions of their own.
// cuGetProcAddress goes by names, and gives "cuGraphInstantiate" its first signature for ever.
struct Driver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration
#define MONOGRAPH_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
  MONOGRAPH_CUDA_DRIVER(MONOGRAPH_CUDA_MEMBER)
#undef MONOGRAPH_CUDA_MEMBER
};

// The machine's driver, opened and initialised when first asked for. UserError, in one line, that
// says what is missing: the driver, a function of it, or a GPU.
const Driver& driver();

// Throws UserError that names the call, the code and what to do, unless `result` is success.
// InternalError for codes that only a bug gives (an invalid argument or handle).
void check_call(const Driver& driver, CUresult result, std::string_view call);

}  // namespace monograph::device::cuda
