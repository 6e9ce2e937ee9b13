#pragma once

#include "comm/nccl/gpu_world.h"
#include "comm/nccl/nccl_api.h"

namespace monograph::comm {

// make_nccl_world with the functions given, which tests make themselves.
std::unique_ptr<GpuWorld> make_nccl_world(World& world, device::cuda::ContextPtr context,
                                          const NcclApi& api);

}  // namespace monograph::comm
