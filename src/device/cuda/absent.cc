#include "device/cuda/availability.h"

namespace monograph::device::cuda {

std::string why_no_gpu() {
  return "this program was built without the CUDA headers: build it where cuda.h is (CUDA_HOME, or "
         "/usr/local/cuda), or use --device cpu";
}

}  // namespace monograph::device::cuda
