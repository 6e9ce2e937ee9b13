#include "device/cuda/driver.h"

#include <memory>

#include "base/dynamic_library.h"
#include "base/error.h"

namespace monograph::device::cuda {
namespace {

constexpr int kApiVersion =
    12040;  // of the driver's functions; older drivers than that are refused

struct Loaded {
  std::unique_ptr<DynamicLibrary> library;
  Driver api;
};

void fill(Driver& api, const DynamicLibrary& library) {
  using GetProcAddress =
      CUresult(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  auto* const find = library.function<GetProcAddress>("cuGetProcAddress_v2");
  const auto get = [&](const char* name, void** function) {
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    const CUresult result = find(name, function, kApiVersion, CU_GET_PROC_ADDRESS_DEFAULT, &status);
    if (result == CUDA_SUCCESS && *function != nullptr) return;
    throw_user_error("the NVIDIA driver ({}) has no function '{}': install a newer driver",
                     library.path(), name);
  };
#define MONOGRAPH_CUDA_FILL(name) get(#name, reinterpret_cast<void**>(&api.name));
  MONOGRAPH_CUDA_DRIVER(MONOGRAPH_CUDA_FILL)
#undef MONOGRAPH_CUDA_FILL
}

std::unique_ptr<DynamicLibrary> open_driver() {
  try {
    return std::make_unique<DynamicLibrary>("GPUs are used through libcuda.so.1",
                                            std::vector<std::string>{"libcuda.so.1"},
                                            "install the NVIDIA driver");
  } catch (const UserError&) {  // its list of one place tried says no more
    throw_user_error(
        "no NVIDIA driver on this machine (libcuda.so.1 is not found): install it, or use --device "
        "cpu");
  }
}

Loaded load() {
  Loaded loaded;
  loaded.library = open_driver();
  fill(loaded.api, *loaded.library);
  const CUresult result = loaded.api.cuInit(0);
  int count = 0;
  if (result == CUDA_ERROR_NO_DEVICE ||
      (result == CUDA_SUCCESS && loaded.api.cuDeviceGetCount(&count) == CUDA_SUCCESS &&
       count == 0)) {
    throw_user_error(
        "the NVIDIA driver finds no GPU on this machine: check nvidia-smi and "
        "CUDA_VISIBLE_DEVICES, or use --device cpu");
  }
  check_call(loaded.api, result, "cuInit");
  return loaded;
}

std::string_view advice_for(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return "use a smaller batch, or free memory that other programs hold (nvidia-smi lists them)";
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_IMAGE:
      return "the kernels were compiled for another GPU: compile for this one";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return "the driver's parts are of different versions or still starting: restart the machine "
             "after a driver update";
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
      return "a kernel touched memory that it must not: run it under compute-sanitizer to see "
             "which";
    case CUDA_ERROR_ECC_UNCORRECTABLE:
      return "the GPU's memory is damaged: take this GPU out of service";
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
      return "another program holds the GPU for itself: wait for it, or choose another GPU";
    default:
      return "see the driver's messages (dmesg)";
  }
}

bool is_our_bug(CUresult result) {
  return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_HANDLE ||
         result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_NOT_FOUND ||
         result == CUDA_ERROR_ILLEGAL_STATE || result == CUDA_ERROR_NOT_INITIALIZED;
}

}  // namespace

const Driver& driver() {
  static const Loaded* const loaded = new Loaded(load());  // never closed: exit handlers still run
  return loaded->api;
}

void check_call(const Driver& driver, CUresult result, std::string_view call) {
  if (result == CUDA_SUCCESS) return;
  const char* name = "unknown code";
  const char* text = "";
  if (driver.cuGetErrorName != nullptr) driver.cuGetErrorName(result, &name);
  if (driver.cuGetErrorString != nullptr) driver.cuGetErrorString(result, &text);
  if (is_our_bug(result)) {
    throw_internal_error("{} gave {} ({}): {}", call, name, static_cast<int>(result), text);
  }
  throw_user_error("{} gave {} ({}), {}: {}", call, name, static_cast<int>(result), text,
                   advice_for(result));
}

}  // namespace monograph::device::cuda
