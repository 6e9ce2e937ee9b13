#include "codegen/cuda/render.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "codegen/cpu/random_loop.h"
#include "codegen/cuda/compile.h"
#include "ir/loop/loop_parser.h"

namespace monograph::codegen::cuda {
namespace {

using ir::DeviceSpec;
using testing::HasSubstr;
using testing::Not;

#define SKIP_WITHOUT_NVRTC() \
  if (!Nvrtc::is_available()) GTEST_SKIP() << "no NVRTC on this machine: nothing was compiled"

RenderedKernel rendered(const std::string& text) {
  return render(ir::parse_loop(text), "kernel", DeviceSpec::h200());
}

// Parts of the source in this order.
void expect_parts(const std::string& source, const std::vector<std::string>& parts) {
  size_t at = 0;
  for (const std::string& part : parts) {
    const size_t found = source.find(part, at);
    ASSERT_NE(found, std::string::npos) << "no '" << part << "' in its place in\n" << source;
    at = found + part.size();
  }
}

const std::string kCast = R"(loop rows [] inner {} blocks 1 of rows sweeps 1 {{
  b0 = input f32{}
  b1 = output bf16{}
  %0 = element f32 load b0[j]
  element f32 store b1[j] = %0 @0
}})";

TEST(CudaRender, FlatLoopsReadSixteenBytesAtATimeSeveralAtOnce) {
  const RenderedKernel kernel =
      rendered(fmt::format(fmt::runtime(kCast), 1048576, " aligned 16", " aligned 16"));
  expect_parts(kernel.source,
               {"kernel(const float* b0, bf16* b1)", "Pack<float, 4> p0[4];",
                "p0[step] = load_constant_pack<4>(b0 + (column));", "Pack<float, 4> s1;",
                "s1.at[i] = v0;", "store_pack(b1 + (column), to_bf16_pack<4>(s1));"});
  ASSERT_EQ(kernel.launches.size(), 1u);
  EXPECT_EQ(kernel.launches[0].grid[0], 1048576u / 4 / 4 / 256);
}

TEST(CudaRender, WhatIsNotAlignedIsReadOneByOneAndARestAfterTheLastPack) {
  EXPECT_THAT(rendered(fmt::format(fmt::runtime(kCast), 4096, "", "")).source,
              HasSubstr("load_constant_pack<1>(b0 + (column))"));
  expect_parts(
      rendered(fmt::format(fmt::runtime(kCast), 4099, " aligned 16", " aligned 16")).source,
      {"load_constant_pack<4>", "if (blockIdx.x == gridDim.x - 1 && threadIdx.x < 3) {",
       "number = 4096 + threadIdx.x", "load_constant_pack<1>"});
}

TEST(CudaRender, IndicesAreWideOnlyWhereTheyMustBe) {
  const std::string narrow = fmt::format(fmt::runtime(kCast), int64_t{1} << 29, "", "");
  EXPECT_THAT(rendered(narrow).source, HasSubstr("const int row = 0, column = number"));
  const std::string wide = fmt::format(fmt::runtime(kCast), int64_t{1} << 32, "", "");
  EXPECT_THAT(rendered(wide).source, HasSubstr("const long row = 0, column = number"));
}

const std::string kNorm = R"(loop rows [4096] inner {0} blocks 1 of rows sweeps 2 {{
  b0 = input bf16 aligned 16
  b1 = output bf16 aligned 16
  b2 = output f32 aligned 16
  %0 = element f32 load b0[{0}*r0 + j] keep @0
  %1 = row f32 reduce_sum(%0) @0
  %2 = element f32 sub(%0, %1)
  element f32 store b1[{0}*r0 + j] = %2 @1
  row f32 store b2[r0] = %1 @1
}})";

TEST(CudaRender, AWarpHoldsAShortRowInRegisters) {
  const RenderedKernel kernel = rendered(fmt::format(fmt::runtime(kNorm), 768));
  expect_parts(kernel.source, {"lane = threadIdx.x % 32", "Pack<bf16, 8> k0[3];",
                               "k0[step] = load_pack<8>(b0 + (768 * row + column));", "v1 += v0;",
                               "v1 = reduce_lanes<Sum, 32>(v1);", "from_bf16(k0[step].at[i])",
                               "store_pack(b1 + (768 * row + column), to_bf16_pack<8>(s3));",
                               "if (lane == 0) {", "b2[row] = v1;"});
  EXPECT_THAT(kernel.source, Not(HasSubstr("__shared__")));
  EXPECT_EQ(kernel.launches[0].grid[0], 4096u / 8);
}

TEST(CudaRender, ABlockHoldsALongRowInSharedMemory) {
  const RenderedKernel kernel = rendered(fmt::format(fmt::runtime(kNorm), 100608));
  expect_parts(kernel.source,
               {"lane = threadIdx.x % 512", "bf16* const k0 = (bf16*)(shared + 0);",
                "store_pack(k0 + column, p0);", "v1 = reduce_warps<Sum, 16>(warps1[group]);",
                "p0 = load_pack<8>(k0 + column);"});
  EXPECT_EQ(kernel.launches[0].shared_bytes, 100608u * 2);
  EXPECT_EQ(kernel.launches[0].block[0], 512u);
}

TEST(CudaRender, WhereTwoRowsFitSharedMemoryTheNextOneComesAhead) {
  const RenderedKernel kernel = rendered(fmt::format(fmt::runtime(kNorm), 50304));
  expect_parts(
      kernel.source,
      {"bf16* const k0_rows = (bf16*)(shared + 0);", "start_arrivals(arrivals);",
       "bring(k0_rows + 0 * 50304, b0 + (50304 * row), 100608, arrivals + 0);",
       "bring(k0_rows + (1 - half) * 50304, b0 + (50304 * row), 100608,",
       "wait_for_arrival(arrivals + half, times % 2);", "p0 = load_pack<8>(k0 + column);"});
  EXPECT_THAT(kernel.source, Not(HasSubstr("store_pack(k0 + column")));
  EXPECT_EQ(kernel.launches[0].shared_bytes, 50304u * 4);
  EXPECT_EQ(kernel.launches[0].block[0], 1024u);
}

TEST(CudaRender, AColumnTestIsLeftOutOfPacksThatCannotHoldIt) {
  const RenderedKernel kernel = rendered(R"(loop rows [4096] inner 768 blocks 1 of rows sweeps 1 {
    b0 = input bf16 aligned 16
    b1 = input i64 aligned 16
    b2 = output f32 aligned 16
    b3 = output f32 aligned 16
    %0 = row i64 load b1[r0] @0
    %1 = element f32 load b0[768*r0 + j]
    %2 = element i64 index [j]
    %3 = element bool eq(%2, %0)
    %4 = scalar f32 constant 0
    %5 = element f32 where(%3, %1, %4)
    %6 = row f32 reduce_sum(%5) @0
    %7 = row f32 reduce_max(%1) @0
    row f32 store b2[r0] = %6 @1
    row f32 store b3[r0] = %7 @1
  })");
  expect_parts(kernel.source, {"if ((u32)n0 - (u32)(column) < 8u) {", "const bool v3 = v2 == n0;",
                               "v6 += v5;", "v7 = max_of_pack(v7, p1[step]);"});
  EXPECT_THAT(kernel.source, Not(HasSubstr("const bool v3 = false;")));  // nothing is left to do
}

TEST(CudaRender, ColumnSumsStayInRegistersAndBlocksAreAddedByASecondLaunch) {
  const RenderedKernel kernel = rendered(R"(loop rows [65536] inner 3072 blocks 264 of rows
    sweeps 1 partials b2 [0] {
      b0 = input bf16 aligned 16
      b1 = output f32 aligned 16
      b2 = workspace f32 [811008]
      %0 = element f32 load b0[3072*r0 + j]
      element f32 accumulate_sum b1[j] = %0 keeps_inner @0
    })");
  expect_parts(
      kernel.source,
      {"Pack<float, 8> a1[1];", "p0[turn * 1 + step] = load_constant_pack<8>",
       "a1[step].at[i] += v0;", "(b2 + 0)[3072L * blockIdx.x + column + i] = a1[step].at[i];",
       "kernel_finish", "reduce_column_parts<Sum>(b2 + 0 + column, 264"});
  ASSERT_EQ(kernel.launches.size(), 2u);
  EXPECT_EQ(kernel.launches[0].grid[0], 264u);
  EXPECT_EQ(kernel.launches[0].block[0], 384u);
  EXPECT_EQ(kernel.launches[1].entry, "kernel_finish");
  EXPECT_EQ(kernel.launches[1].grid[0], 3072u / 32);
}

// Eight threads have all columns: more of them would hold no less each.
TEST(CudaRender, SeveralSumsOfShortRowsUseAllThreads) {
  const RenderedKernel kernel = rendered(R"(loop rows [65536] inner 64 blocks 264 of rows
    sweeps 1 partials b7 [0,16896,33792,50688] {
      b0 = input bf16 aligned 16
      b1 = input f32 aligned 16
      b2 = input f32 aligned 16
      b3 = output f32 aligned 16
      b4 = output f32 aligned 16
      b5 = output f32 aligned 16
      b6 = output f32 aligned 16
      b7 = workspace f32 [67584]
      %0 = element f32 load b0[64*r0 + j]
      %1 = element f32 load b1[j]
      %2 = element f32 mul(%0, %1)
      %3 = element f32 load b2[j]
      %4 = element f32 mul(%2, %3)
      %5 = element f32 mul(%0, %4)
      element f32 accumulate_sum b3[j] = %0 keeps_inner @0
      element f32 accumulate_sum b4[j] = %2 keeps_inner @0
      element f32 accumulate_sum b5[j] = %4 keeps_inner @0
      element f32 accumulate_sum b6[j] = %5 keeps_inner @0
    })");
  expect_parts(kernel.source, {"const int lane = threadIdx.x % 8, group = threadIdx.x / 8;"});
}

TEST(CudaRender, AScalarIsStoredAfterAllBlocksHaveReadIt) {
  const RenderedKernel kernel = rendered(R"(loop rows [] inner 100000 blocks 1 of rows sweeps 1 {
    b0 = input i64
    b1 = output f32
    b2 = output i64
    %0 = scalar i64 load b0[0]
    %1 = scalar f64 convert(%0)
    %2 = scalar f64 exp(%1)
    %3 = scalar f32 convert(%2)
    %4 = scalar i64 constant 1
    %5 = scalar i64 add(%0, %4)
    element f32 store b1[j] = %3 @0
    scalar i64 store b2[0] = %5
  })");
  // One thread of a block takes the exponential; what only the second launch needs stays out.
  expect_parts(kernel.source,
               {"__shared__ float w3;", "if (threadIdx.x == 0) {", "exp_of(v1)", "w3 = v3;",
                "__syncthreads();", "const float v3 = w3;", "kernel_finish", "b2[0] = v5;"});
  EXPECT_EQ(kernel.launches.size(), 2u);
}

TEST(CudaRender, RandomNumbersAreMadeFourAtATime) {
  const std::string text = R"(loop rows [64] inner 768 blocks 1 of rows sweeps 1 {{
    b0 = input i64
    b1 = output f32 aligned 16
    %0 = scalar i64 load b0[0]
    %1 = scalar i64 load b0[1]
    %2 = scalar i64 argument 0
    %3 = element f32 philox(%0, %1, %2) [{}*r0 + j]
    element f32 store b1[768*r0 + j] = %3 @0
  }})";
  EXPECT_THAT(rendered(fmt::format(fmt::runtime(text), 768)).source,
              HasSubstr("philox_pack<4>(768 * row + column, v0, v1, v2)"));
  EXPECT_THAT(rendered(fmt::format(fmt::runtime(text), 768)).source,
              HasSubstr("float* b1, long scalar0)"));
  EXPECT_THAT(rendered(fmt::format(fmt::runtime(text), 769)).source, HasSubstr("philox_one("));
}

std::string document(const std::string& path) {
  std::ifstream file(std::string(MONOGRAPH_SOURCE_DIR) + path);
  std::stringstream stream;
  stream << file.rdbuf();
  return stream.str();
}

TEST(CudaRender, TheDocumentShowsWhatIsPrinted) {
  const std::string text = document("/docs/cuda.md");
  const auto block = [&](const std::string& opening) {
    const size_t begin = text.find(opening) + opening.size();
    return text.substr(begin, text.find("```", begin) - begin);
  };
  const ir::Loop loop = ir::parse_loop(block("```loop shifted\n"), "docs/cuda.md");
  EXPECT_EQ(render(loop, "shifted", DeviceSpec::h200()).source, block("```cuda shifted\n"));
}

// --- compiled by NVRTC, which needs no GPU

std::vector<ir::Loop> documented_loops() {
  const std::string text = document("/docs/loop.md");
  std::vector<ir::Loop> loops;
  for (size_t at = text.find("```loop "); at != std::string::npos; at = text.find("```loop ", at)) {
    const size_t begin = text.find('\n', at), end = text.find("```", begin);
    loops.push_back(ir::parse_loop(text.substr(begin, end - begin), "docs/loop.md"));
    at = end + 3;
  }
  return loops;
}

CompileOptions test_options() {
  return {.cache_directory = testing::TempDir() + "monograph-cuda-test"};
}

TEST(CudaCompile, WorkedAndRandomLoops) {
  SKIP_WITHOUT_NVRTC();
  std::vector<ir::Loop> loops = documented_loops();
  ASSERT_EQ(loops.size(), 5u);
  for (ir::Loop& loop : random_loops(1, 60)) loops.push_back(std::move(loop));
  const CompiledKernels kernels = compile_loops(loops, DeviceSpec::h200(), test_options());
  ASSERT_EQ(kernels.images.size(), loops.size());
  for (size_t k = 0; k < loops.size(); ++k) {
    for (const FunctionUse& use : kernels.functions[k]) {
      EXPECT_GT(use.registers, 0);
      EXPECT_EQ(use.spilled_bytes, 0) << use.name << "\n" << kernels.sources[k];
    }
  }
}

TEST(CudaCompile, EqualLoopsOnceAndFromTheCacheAgain) {
  SKIP_WITHOUT_NVRTC();
  const ir::Loop loop =
      ir::parse_loop(fmt::format(fmt::runtime(kCast), 12345, " aligned 16", " aligned 16"));
  const std::vector<ir::Loop> loops = {loop, loop};
  const CompiledKernels first = compile_loops(loops, DeviceSpec::h200(), test_options());
  EXPECT_EQ(first.num_distinct, 1);
  const CompiledKernels again = compile_loops(loops, DeviceSpec::h200(), test_options());
  EXPECT_EQ(again.num_from_cache, 1);
  EXPECT_EQ(*again.images[0].cubin, *first.images[1].cubin);
  EXPECT_EQ(again.functions[0][0].registers, first.functions[0][0].registers);
  EXPECT_THAT(again.sources[0], testing::EndsWith(".cu"));
}

TEST(CudaCompile, ErrorsShowTheLineOfTheSource) {
  SKIP_WITHOUT_NVRTC();
  try {
    Nvrtc().compile("int a;\nint b = c;\n", "bad.cu", {"--gpu-architecture=sm_90"});
    FAIL() << "it was compiled";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("bad.cu(2): error"));
    EXPECT_THAT(error.what(), HasSubstr("2 | int b = c;"));
  }
}

TEST(CudaCompile, TheAssemblersLogIsRead) {
  const auto uses = function_uses(
      "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
      "ptxas info    : Function properties for k\n"
      "ptxas         .     8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
      "ptxas info    : Used 21 registers, used 1 barriers, 32 bytes smem\n");
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].name, "k");
  EXPECT_EQ(uses[0].registers, 21);
  EXPECT_EQ(uses[0].shared_bytes, 32);
  EXPECT_EQ(uses[0].spilled_bytes, 28);
  EXPECT_EQ(uses[0].stack_bytes, 8);
}

}  // namespace
}  // namespace monograph::codegen::cuda
