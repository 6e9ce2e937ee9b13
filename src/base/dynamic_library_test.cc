#include "base/dynamic_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace monograph {
namespace {

std::string error_of(const auto& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(DynamicLibrary, OpensTheFirstThatIsThere) {
  const DynamicLibrary library("numbers are made by libm", {"libabsent.so.7", "libm.so.6"}, "-");
  EXPECT_THAT(library.path(), testing::HasSubstr("libm"));
  EXPECT_EQ(library.function<double(double)>("sqrt")(9.0), 3.0);
  EXPECT_TRUE(library.has("cos"));
  EXPECT_FALSE(library.has("cosine"));
}

TEST(DynamicLibrary, ErrorsSayWhatWasTriedAndWhatToDo) {
  const std::string absent = error_of([] {
    DynamicLibrary("GPUs are driven by CUDA", {"libabsent.so.7", "/no/such/lib.so"}, "install it");
  });
  EXPECT_THAT(absent, testing::StartsWith("GPUs are driven by CUDA, which cannot be opened: "
                                          "install it. Tried:\n  libabsent.so.7: "));
  EXPECT_THAT(absent, testing::HasSubstr("\n  /no/such/lib.so: "));
  const DynamicLibrary library("numbers are made by libm", {"libm.so.6"}, "-");
  EXPECT_THAT(error_of([&] { library.function<void()>("cosine"); }),
              testing::HasSubstr("has no function 'cosine'"));
}

TEST(DynamicLibrary, CudaIsLookedForWhereTheUserSays) {
  setenv("CUDA_HOME", "/opt/own-cuda", 1);
  const auto candidates = cuda_library_candidates({"libnvrtc.so.13"});
  unsetenv("CUDA_HOME");
  EXPECT_EQ(candidates[0], "libnvrtc.so.13");
  EXPECT_EQ(candidates[1], "/opt/own-cuda/lib64/libnvrtc.so.13");
  EXPECT_EQ(candidates.back(), "/usr/local/cuda/lib/libnvrtc.so.13");
}

}  // namespace
}  // namespace monograph
