#include "device/cuda/nvrtc.h"

#include <nvrtc.h>

#include <vector>

#include "base/dynamic_library.h"
#include "base/error.h"

namespace monograph::device::cuda {
namespace {

struct Nvrtc {
  DynamicLibrary library{
      "our own CUDA kernels are compiled by NVRTC",
      cuda_library_candidates({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}),
      "install the CUDA toolkit's NVRTC, or add its folder to LD_LIBRARY_PATH"};
// NOLINTBEGIN(bugprone-macro-parentheses): declarations
#define MONOGRAPH_NVRTC(name) decltype(&::name) name = library.function<decltype(::name)>(#name);
  MONOGRAPH_NVRTC(nvrtcCreateProgram)
  MONOGRAPH_NVRTC(nvrtcDestroyProgram)
  MONOGRAPH_NVRTC(nvrtcCompileProgram)
  MONOGRAPH_NVRTC(nvrtcGetErrorString)
  MONOGRAPH_NVRTC(nvrtcGetProgramLogSize)
  MONOGRAPH_NVRTC(nvrtcGetProgramLog)
  MONOGRAPH_NVRTC(nvrtcGetCUBINSize)
  MONOGRAPH_NVRTC(nvrtcGetCUBIN)
#undef MONOGRAPH_NVRTC
  // NOLINTEND(bugprone-macro-parentheses)
};

const Nvrtc& nvrtc() {
  static const Nvrtc* const loaded = new Nvrtc;  // never closed: exit handlers still run
  return *loaded;
}

void check_call(nvrtcResult result, const char* call) {
  check(result == NVRTC_SUCCESS, "{} gave {}", call, nvrtc().nvrtcGetErrorString(result));
}

std::string log_of(nvrtcProgram program) {
  size_t num_bytes = 0;
  check_call(nvrtc().nvrtcGetProgramLogSize(program, &num_bytes), "nvrtcGetProgramLogSize");
  std::string log(num_bytes, '\0');
  check_call(nvrtc().nvrtcGetProgramLog(program, log.data()), "nvrtcGetProgramLog");
  return log;
}

}  // namespace

std::string compile_cubin(const std::string& source, const std::string& architecture) {
  const Nvrtc& api = nvrtc();
  nvrtcProgram program = nullptr;
  check_call(api.nvrtcCreateProgram(&program, source.c_str(), "kernels.cu", 0, nullptr, nullptr),
             "nvrtcCreateProgram");
  const std::string target = "--gpu-architecture=" + architecture;
  const std::vector<const char*> options = {target.c_str(), "--std=c++17"};
  const nvrtcResult result =
      api.nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  if (result != NVRTC_SUCCESS) {
    const std::string log = log_of(program);
    api.nvrtcDestroyProgram(&program);
    throw_internal_error("NVRTC refuses our kernels for {} ({}):\n{}", architecture,
                         api.nvrtcGetErrorString(result), log);
  }
  size_t num_bytes = 0;
  check_call(api.nvrtcGetCUBINSize(program, &num_bytes), "nvrtcGetCUBINSize");
  std::string cubin(num_bytes, '\0');
  check_call(api.nvrtcGetCUBIN(program, cubin.data()), "nvrtcGetCUBIN");
  api.nvrtcDestroyProgram(&program);
  return cubin;
}

}  // namespace monograph::device::cuda
