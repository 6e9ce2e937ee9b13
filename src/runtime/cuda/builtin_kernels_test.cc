#include "runtime/cuda/builtin_kernels.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/cuda/nvrtc.h"

namespace monograph::runtime {
namespace {

TEST(BuiltinKernels, CompileForEachArchitecture) {
  for (const char* architecture : {"sm_80", "sm_90", "sm_100"}) {
    try {
      EXPECT_GT(device::cuda::compile_cubin(step_kernels_source(), architecture).size(), 0u);
    } catch (const UserError& error) {
      GTEST_SKIP() << error.what();
    }
  }
}

TEST(BuiltinKernels, CompileAttentionForEachDtype) {
  for (const ir::DType dtype : {ir::DType::kF32, ir::DType::kBF16, ir::DType::kF64}) {
    try {
      const std::string source = attention_kernels_source(dtype, 40);
      EXPECT_GT(device::cuda::compile_cubin(source, "sm_90").size(), 0u);
    } catch (const UserError& error) {
      GTEST_SKIP() << error.what();
    }
  }
}

}  // namespace
}  // namespace monograph::runtime
