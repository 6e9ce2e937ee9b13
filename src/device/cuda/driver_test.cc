#include "device/cuda/driver.h"

#include <gmock/gmock.h>

#include "base/message_of.h"
#include "device/cuda/availability.h"
#include "device/cuda/fake_driver.h"
#include "device/cuda/module.h"
#include "device/cuda/nvrtc.h"

namespace monograph::device::cuda {
namespace {

using testing::HasSubstr;

TEST(Driver, NamesCallCodeAndAdvice) {
  const Driver api = fake_driver();
  EXPECT_EQ(message_of<UserError>([&] { check_call(api, CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc"); }),
            "cuMemAlloc gave CUDA_ERROR_FAKE (2), as planned: use a smaller batch, or free memory "
            "that other programs hold (nvidia-smi lists them)");
  EXPECT_THAT(
      message_of<InternalError>([&] { check_call(api, CUDA_ERROR_INVALID_VALUE, "cuLaunch"); }),
      HasSubstr("cuLaunch gave CUDA_ERROR_FAKE (1)"));
  check_call(api, CUDA_SUCCESS, "cuMemAlloc");
}

TEST(Driver, SaysInOneLineWhatIsMissing) {
  const std::string why = why_no_gpu();
  if (why.empty()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_THAT(why, testing::Not(HasSubstr("\n")));
  EXPECT_THAT(why, HasSubstr("--device cpu"));
}

TEST(Context, DescribesTheGpu) {
  const Driver api = fake_driver();
  const auto context = Context::create(0, api);
  EXPECT_EQ(context->properties().name, "Fake GPU");
  EXPECT_EQ(context->properties().architecture(), "sm_90");
  EXPECT_EQ(message_of<UserError>([&] { Context::create(1, api); }),
            "there is no GPU 1: this process sees 1, numbered from 0");
}

TEST(DeviceMemory, SaysWhatIsFree) {
  const Driver api = fake_driver();
  const auto context = Context::create(0, api);
  DeviceMemory memory(context, 900);
  EXPECT_EQ(fake_gpu().free_bytes, 100);
  EXPECT_THAT(message_of<UserError>([&] { DeviceMemory(context, 200); }),
              HasSubstr("the GPU has no 0.0 MB left: 0.0 of 0.0 MB are free"));
  memory = DeviceMemory();
  EXPECT_EQ(fake_gpu().free_bytes, 1000);
}

TEST(Graph, RecordsAndLaunches) {
  const Driver api = fake_driver();
  const Stream stream(Context::create(0, api));
  int num_calls = 0;
  const Graph graph(stream, [&] { fake_gpu().give([&] { ++num_calls; }); });
  EXPECT_FALSE(fake_gpu().is_recording);
  EXPECT_EQ(graph.num_nodes(), 1);
  EXPECT_EQ(num_calls, 0);
  graph.launch(stream);
  graph.launch(stream);
  EXPECT_EQ(num_calls, 2);
}

TEST(Graph, LeavesTheCaptureWhenRecordingFails) {
  const Driver api = fake_driver();
  const Stream stream(Context::create(0, api));
  EXPECT_THAT(message_of<UserError>([&] { Graph(stream, [] { throw UserError("no"); }); }), "no");
  EXPECT_FALSE(fake_gpu().is_recording);
  fake_gpu().end_of_recording = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  EXPECT_THAT(message_of<UserError>([&] { Graph(stream, [] {}); }),
              HasSubstr("cuStreamEndCapture gave"));
}

TEST(Nvrtc, CompilesWithoutAGpu) {
  std::string cubin;
  try {
    cubin = compile_cubin("extern \"C\" __global__ void f(int* x) { *x = 1; }", "sm_90");
  } catch (const UserError& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_THAT(cubin, testing::StartsWith("\177ELF"));
  EXPECT_THAT(message_of<InternalError>([] { compile_cubin("int f( {", "sm_90"); }),
              HasSubstr("kernels.cu(1): error"));
}

}  // namespace
}  // namespace monograph::device::cuda
