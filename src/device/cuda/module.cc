#include "device/cuda/module.h"

namespace monograph::device::cuda {

Module::Module(ContextPtr context, const std::string& cubin) : context_(std::move(context)) {
  context_->check(context_->api().cuModuleLoadData(&module_, cubin.data()), "cuModuleLoadData");
}

Module::~Module() {
  if (module_ != nullptr) context_->api().cuModuleUnload(module_);
}

CUfunction Module::function(const std::string& name, int64_t shared_bytes) const {
  constexpr int64_t kSharedBytesWithoutAsking = 48 * 1024;
  CUfunction function = nullptr;
  context_->check(context_->api().cuModuleGetFunction(&function, module_, name.c_str()),
                  "cuModuleGetFunction of " + name);
  if (shared_bytes > kSharedBytesWithoutAsking) {
    context_->check(context_->api().cuFuncSetAttribute(
                        function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                        static_cast<int>(shared_bytes)),
                    "cuFuncSetAttribute of " + name);
  }
  return function;
}

void launch(const Stream& stream, CUfunction function, const LaunchShape& shape, void** arguments) {
  const Context& context = *stream.context();
  context.check(
      context.api().cuLaunchKernel(function, shape.grid[0], shape.grid[1], shape.grid[2],
                                   shape.block[0], shape.block[1], shape.block[2],
                                   shape.shared_bytes, stream.handle(), arguments, nullptr),
      "cuLaunchKernel");
}

}  // namespace monograph::device::cuda
