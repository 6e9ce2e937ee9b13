#include "diagnose/compile/generated_code.h"

#include <gtest/gtest.h>

namespace monograph::diagnose {
namespace {

TEST(GeneratedCode, CountsLaunches) {
  EXPECT_EQ(count_launches("triton_poi_fused_0 = async_compile.triton('x')\n"
                           "def call(args):\n"
                           "    buf0 = empty_strided_cuda((8,), (1,), torch.float32)\n"
                           "    extern_kernels.mm(a, b, out=buf0)\n"
                           "    triton_poi_fused_0.run(buf0, 8, stream=stream0)\n"
                           "    cpp_fused_add_1(buf0)\n"
                           "    buf1 = torch.ops.aten.sort.default(buf0)\n"
                           "    return (buf1, )\n"
                           "def benchmark_compiled_module(times=10):\n"
                           "    triton_poi_fused_0.run(buf0)\n"),
            4);
  EXPECT_EQ(count_launches(""), 0);
}

TEST(GeneratedCode, CountsNodesThatCompute) {
  EXPECT_EQ(count_nodes("  a: \"f32[8]\" = torch.ops.aten.mm.default(x, y)\n"
                        "  b = torch.ops.aten.view.default(a, [8])\n"
                        "  c = b[0]\n"
                        "  d = torch.ops.aten.relu.default(b)\n"),
            2);
}

}  // namespace
}  // namespace monograph::diagnose
