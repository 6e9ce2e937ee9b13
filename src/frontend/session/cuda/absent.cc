#include "base/error.h"
#include "device/cuda/availability.h"
#include "frontend/session/cuda_backend.h"

namespace monograph::session {

std::unique_ptr<StateStorage> make_cuda_states(int) {
  throw_user_error("--device cuda: {}", device::cuda::why_no_gpu());
}

std::unique_ptr<Executable> make_cuda(const ir::Graph&, StateStorage&, const CompileOptions&,
                                      Mesh) {
  throw_user_error("--device cuda: {}", device::cuda::why_no_gpu());
}

std::function<std::string(const std::string&)> start_gpu_timeline() {
  throw_user_error("--timeline: {}", device::cuda::why_no_gpu());
}

}  // namespace monograph::session
