#include "base/error.h"
#include "comm/nccl/gpu_world.h"

namespace monograph::comm {

std::unique_ptr<GpuWorld> make_nccl_world(World&, device::cuda::ContextPtr) {
  throw_user_error(
      "this program was built without nccl.h: build it where NCCL's header is (beside cuda.h, or "
      "-DNCCL_INCLUDE=FOLDER), or use --device cpu");
}

}  // namespace monograph::comm
