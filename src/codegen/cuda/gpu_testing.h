#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/dynamic_library.h"
#include "base/error.h"
#include "ir/program/kernel_image.h"

// The little of the driver that tests of generated kernels need. The rooms above have a better one,
// which this room may not know.
namespace monograph::codegen::cuda {

class TestGpu {
 public:
  using Address = unsigned long long;

  // Empty when this machine has a GPU; otherwise what is missing.
  static std::string why_absent() {
    try {
      const TestGpu gpu;
      return "";
    } catch (const UserError& error) {
      return error.what();
    }
  }

  TestGpu()
      : library_("kernels run by NVIDIA's driver", {"libcuda.so.1"}, "a GPU is needed for this") {
    if (call<unsigned>("cuInit", 0) != 0) throw_user_error("cuInit failed: no GPU");
    int device = 0;
    void* context = nullptr;
    require("cuDeviceGet", call<int*, int>("cuDeviceGet", &device, 0));
    require("cuDevicePrimaryCtxRetain",
            call<void**, int>("cuDevicePrimaryCtxRetain", &context, device));
    require("cuCtxSetCurrent", call<void*>("cuCtxSetCurrent", context));
  }

  Address allocate(int64_t bytes) const {
    Address address = 0;
    require("cuMemAlloc",
            call<Address*, size_t>("cuMemAlloc_v2", &address, std::max<int64_t>(bytes, 256)));
    return address;
  }
  void release(Address address) const { call<Address>("cuMemFree_v2", address); }
  void upload(Address to, const void* from, int64_t bytes) const {
    require("cuMemcpyHtoD", call<Address, const void*, size_t>("cuMemcpyHtoD_v2", to, from, bytes));
  }
  void download(void* to, Address from, int64_t bytes) const {
    require("cuMemcpyDtoH", call<void*, Address, size_t>("cuMemcpyDtoH_v2", to, from, bytes));
  }
  void copy(Address to, Address from, int64_t bytes) const {
    require("cuMemcpyDtoD", call<Address, Address, size_t>("cuMemcpyDtoD_v2", to, from, bytes));
  }
  void fill(Address to, unsigned char byte, int64_t bytes) const {
    require("cuMemsetD8", call<Address, unsigned char, size_t>("cuMemsetD8_v2", to, byte, bytes));
  }
  void synchronize() const { require("cuCtxSynchronize", call<>("cuCtxSynchronize")); }

  // Functions of an image, ready to be launched.
  struct Kernel {
    std::vector<ir::KernelLaunch> launches;
    std::vector<void*> functions;
  };
  Kernel load(const ir::KernelImage& image) const {
    void* module = nullptr;
    require("cuModuleLoadData",
            call<void**, const void*>("cuModuleLoadData", &module, image.cubin->data()));
    Kernel kernel{image.launches, {}};
    for (const ir::KernelLaunch& launch : image.launches) {
      void* function = nullptr;
      require("cuModuleGetFunction",
              call<void**, void*, const char*>("cuModuleGetFunction", &function, module,
                                               launch.entry.c_str()));
      constexpr int kMaxDynamicSharedBytes = 8;
      require("cuFuncSetAttribute",
              call<void*, int, int>("cuFuncSetAttribute", function, kMaxDynamicSharedBytes,
                                    static_cast<int>(launch.shared_bytes)));
      kernel.functions.push_back(function);
    }
    return kernel;
  }
  void launch(const Kernel& kernel, std::vector<Address> buffers) const {
    std::vector<void*> arguments;
    for (Address& buffer : buffers) arguments.push_back(&buffer);
    for (size_t l = 0; l < kernel.launches.size(); ++l) {
      const ir::KernelLaunch& shape = kernel.launches[l];
      require(
          "cuLaunchKernel",
          call<void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
               void**, void**>("cuLaunchKernel", kernel.functions[l], shape.grid[0], shape.grid[1],
                               shape.grid[2], shape.block[0], shape.block[1], shape.block[2],
                               shape.shared_bytes, nullptr, arguments.data(), nullptr));
    }
  }

  // Milliseconds of each of `count` calls of `work`, by events.
  template <typename Work>
  std::vector<float> measure(int count, const Work& work) const {
    std::vector<void*> events(count + 1);
    for (void*& event : events) {
      require("cuEventCreate", call<void**, unsigned>("cuEventCreate", &event, 0));
    }
    record(events[0]);
    for (int c = 0; c < count; ++c) {
      work();
      record(events[c + 1]);
    }
    synchronize();
    std::vector<float> times(count);
    for (int c = 0; c < count; ++c) {
      require("cuEventElapsedTime", call<float*, void*, void*>("cuEventElapsedTime", &times[c],
                                                               events[c], events[c + 1]));
    }
    for (void* event : events) call<void*>("cuEventDestroy_v2", event);
    return times;
  }

 private:
  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) const {
    return library_.function<int(Arguments...)>(name)(arguments...);
  }
  void record(void* event) const {
    require("cuEventRecord", call<void*, void*>("cuEventRecord", event, nullptr));
  }
  static void require(const char* name, int result) {
    if (result != 0) throw_user_error("{} failed with error {}", name, result);
  }

  DynamicLibrary library_;
};

}  // namespace monograph::codegen::cuda
