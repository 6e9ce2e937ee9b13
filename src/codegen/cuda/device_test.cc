// Generated kernels on a GPU, against the Loop oracle, and their bandwidth. Everything here is
// skipped where there is no GPU. MONOGRAPH_LOOPS names a file of more Loops (tools/dump_loops).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>

#include "codegen/cpu/kernel_check.h"
#include "codegen/cpu/random_loop.h"
#include "codegen/cuda/compile.h"
#include "codegen/cuda/gpu_testing.h"
#include "codegen/cuda/render.h"
#include "codegen/thread_map.h"
#include "ir/loop/evaluate.h"
#include "ir/loop/loop_parser.h"

namespace monograph::codegen::cuda {
namespace {

using ir::DeviceSpec;
using ir::Literal;
using ir::Loop;
using ir::LoopBuffer;
using Kind = ir::InstructionKind;

#define SKIP_WITHOUT_GPU()                                                 \
  if (const std::string why = TestGpu::why_absent(); !why.empty()) {       \
    GTEST_SKIP() << "no GPU on this machine, so nothing was run: " << why; \
  }

CompileOptions test_options() {
  return {.cache_directory = testing::TempDir() + "monograph-cuda-test"};
}

std::vector<Loop> loops_in(const std::string& text, const std::string& name) {
  std::vector<Loop> loops;
  for (size_t at = text.find("loop rows"); at != std::string::npos;) {
    const size_t end = text.find("\n}", at) + 2;
    loops.push_back(ir::parse_loop(text.substr(at, end - at), name));
    at = text.find("loop rows", end);
  }
  return loops;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream stream;
  stream << file.rdbuf();
  return stream.str();
}

std::vector<Loop> given_loops() {
  const char* const path = std::getenv("MONOGRAPH_LOOPS");
  return path == nullptr ? std::vector<Loop>() : loops_in(content_of(path), path);
}

int64_t bytes_of(const Literal& literal) {
  return literal.num_elements() * ir::dtype_bytes(literal.type().dtype);
}

// Runs the kernel on copies of the buffers and reads them back.
void run(const TestGpu& gpu, const ir::KernelImage& image, BufferSet& set,
         const CheckOptions& options) {
  const TestGpu::Kernel kernel = gpu.load(image);
  std::vector<TestGpu::Address> addresses;
  for (Literal& literal : set.storage) {
    addresses.push_back(literal.data() == nullptr ? 0 : gpu.allocate(bytes_of(literal)));
    if (addresses.back() != 0) gpu.upload(addresses.back(), literal.data(), bytes_of(literal));
  }
  for (const auto& [output, input] : options.aliases) addresses[output] = addresses[input];
  gpu.launch(kernel, addresses);
  gpu.synchronize();
  for (size_t b = 0; b < set.storage.size(); ++b) {
    if (set.storage[b].data() == nullptr) continue;
    gpu.download(set.storage[b].data(), addresses[b], bytes_of(set.storage[b]));
    gpu.release(addresses[b]);
  }
}

// Compiles, runs twice, compares with the oracle and the runs with each other, bit by bit.
int expect_agreement(const std::vector<Loop>& loops, const CheckOptions& options) {
  const TestGpu gpu;
  const CompiledKernels kernels = compile_loops(loops, DeviceSpec::h200(), test_options());
  int num_bad = 0;
  for (size_t l = 0; l < loops.size(); ++l) {
    BufferSet expected = make_buffers(loops[l], options), got = make_buffers(loops[l], options);
    BufferSet again = make_buffers(loops[l], options);
    ir::evaluate(loops[l], expected.addresses);
    run(gpu, kernels.images[l], got, options);
    run(gpu, kernels.images[l], again, options);
    const std::string text = difference(loops[l], got, expected, options.relative);
    bool is_same = true;
    for (size_t b = 0; b < got.storage.size(); ++b) {
      const Literal& x = got.storage[b];
      is_same &=
          x.data() == nullptr || std::memcmp(x.data(), again.storage[b].data(), bytes_of(x)) == 0;
    }
    EXPECT_TRUE(is_same) << "two runs differ, " << kernels.sources[l] << "\n" << loops[l].str();
    EXPECT_EQ(text, "") << kernels.sources[l];
    num_bad += !text.empty() || !is_same;
  }
  fmt::print("{} kernels, {} wrong\n", loops.size(), num_bad);
  return num_bad;
}

// Ids and positions in order, as a segment sum needs them: offsets are filled first.
void add_segments(const Loop& loop, CheckOptions* options, int64_t positions = 3000) {
  for (const ir::Instruction& i : loop.instructions) {
    if (i.kind != Kind::kSegmentSum) continue;
    options->index_extent = positions;
    options->contents[i.order_buffer] =
        Literal::from({ir::DType::kI32, {positions}},
                      [=](int64_t p) { return static_cast<double>(p * 7 % positions); });
    const int offsets = loop.instructions[i.operands[0]].access.buffer;
    const int64_t ids = loop.num_rows();
    // Half of the positions have id 3; the others are spread evenly.
    options->contents[offsets] =
        Literal::from({ir::DType::kI32, {ids + 1}}, [&](int64_t id) -> double {
          const int64_t even = positions / 2 * id / ids;
          return static_cast<double>(id > 3 ? even + positions / 2 : even);
        });
  }
}

TEST(CudaDevice, WorkedLoops) {
  SKIP_WITHOUT_GPU();
  const std::string text = content_of(MONOGRAPH_SOURCE_DIR "/docs/loop.md");
  const std::vector<Loop> loops = loops_in(text.substr(text.find("```loop ")), "docs/loop.md");
  ASSERT_EQ(loops.size(), 5u);
  for (const Loop& loop : loops) {
    CheckOptions options{.index_extent = 100};
    add_segments(loop, &options);
    EXPECT_EQ(expect_agreement({loop}, options), 0);
  }
}

TEST(CudaDevice, RandomLoops) {
  SKIP_WITHOUT_GPU();
  const CheckOptions options{.index_extent = kRandomIndexExtent, .relative = 1e-4};
  EXPECT_EQ(expect_agreement(random_loops(1, 150), options), 0);
}

// The same random Loops with aligned buffers, which the renderer reads many elements at a time.
TEST(CudaDevice, AlignedRandomLoops) {
  SKIP_WITHOUT_GPU();
  std::vector<Loop> loops = random_loops(1, 150);
  for (Loop& loop : loops) {
    for (LoopBuffer& buffer : loop.buffers) buffer.alignment = 16;
  }
  const CheckOptions options{.index_extent = kRandomIndexExtent, .relative = 1e-4};
  EXPECT_EQ(expect_agreement(loops, options), 0);
}

TEST(CudaDevice, RandomNumbersAreThoseOfTheOracle) {
  SKIP_WITHOUT_GPU();
  std::vector<Loop> loops;
  for (const int64_t inner : {8, 768, 1001}) {
    loops.push_back(ir::parse_loop(fmt::format(
        R"(loop rows [5] inner {0} blocks 1 of rows sweeps 1 {{
        b0 = input i64
        b1 = output f32 aligned 16
        %0 = scalar i64 load b0[0]
        %1 = scalar i64 load b0[1]
        %2 = scalar i64 constant 7
        %3 = element f32 philox(%0, %1, %2) [{0}*r0 + j + 8589934592]
        element f32 store b1[{0}*r0 + j] = %3 @0
      }})",
        inner)));
  }
  EXPECT_EQ(expect_agreement(loops, {.index_extent = 1000, .relative = 0}), 0);
}

// A block works on one row while the copy engine brings its next one: the chunked loss, in place,
// and rows through axes that do not lie one after the other.
TEST(CudaDevice, RowsThatTheCopyEngineBrings) {
  SKIP_WITHOUT_GPU();
  std::vector<Loop> loops = loops_in(R"(
loop rows [400] inner 12800 blocks 132 of rows sweeps 3 partials b4 [0] {
  b0 = input f32 aligned 16
  b1 = input i64 aligned 16
  b2 = output f32 aligned 16
  b3 = output f32
  b4 = workspace f32 [132]
  %0 = row i64 load b1[r0] @0
  %1 = element f32 load b0[12800*r0 + j] keep @0
  %2 = row f32 reduce_max(%1) @0
  %3 = element f32 sub(%1, %2)
  %4 = element f32 exp(%3)
  %5 = row f32 reduce_sum(%4) @1
  %6 = element i64 index [j]
  %7 = element bool eq(%6, %0)
  %8 = scalar f32 constant 0
  %9 = element f32 where(%7, %1, %8)
  %10 = row f32 reduce_sum(%9) @1
  %11 = row f32 log(%5) @2
  %12 = row f32 add(%11, %2) @2
  %13 = row f32 sub(%12, %10) @2
  row f32 accumulate_sum b3[0] = %13 @2
  %15 = row f32 reciprocal(%5) @2
  %16 = element f32 mul(%4, %15)
  element f32 store b2[12800*r0 + j] = %16 @2
}
loop rows [20,20] inner 49152 blocks 1 of rows sweeps 2 {
  b0 = input bf16 aligned 16
  b1 = output bf16 aligned 16
  %0 = element f32 load b0[49152*r0 + 983040*r1 + j] keep @0
  %1 = row f32 reduce_max(%0) @0
  %2 = element f32 sub(%0, %1)
  element f32 store b1[983040*r0 + 49152*r1 + j] = %2 @1
})",
                                     "rows");
  for (const Loop& loop : loops) {
    EXPECT_FALSE(map_threads(loop, DeviceSpec::h200()).loads_of_next_row.empty()) << loop.str();
  }
  EXPECT_EQ(
      expect_agreement({loops[0]}, {.index_extent = 12800, .relative = 1e-5, .aliases = {{2, 0}}}),
      0);
  EXPECT_EQ(expect_agreement({loops[1]}, {.relative = 0}), 0);
}

// Loops of models, with fewer rows so that the oracle ends.
TEST(CudaDevice, GivenLoops) {
  SKIP_WITHOUT_GPU();
  std::vector<Loop> loops = given_loops();
  if (loops.empty()) GTEST_SKIP() << "MONOGRAPH_LOOPS names no file of Loops";
  int num_bad = 0, num_run = 0;
  for (Loop loop : loops) {
    if (loop.num_rows() == 1) loop.inner_extent = std::min<int64_t>(loop.inner_extent, 100003);
    const int64_t rows_of_a_thousand = std::max<int64_t>(1, 1000000 / loop.inner_extent);
    int64_t rows = std::max<int64_t>(3, std::min<int64_t>(300, rows_of_a_thousand));
    for (size_t axis = loop.row_extents.size(); axis-- > 0;) {
      loop.row_extents[axis] = std::min(loop.row_extents[axis], rows);
      rows = std::max<int64_t>(2, rows / loop.row_extents[axis]);
    }
    const bool is_small =
        loop.num_rows() * loop.inner_extent * static_cast<int64_t>(loop.instructions.size()) <
        400'000'000;
    if (!is_small) continue;
    CheckOptions options{.index_extent = std::min<int64_t>(loop.inner_extent, 200),
                         .relative = 1e-4};
    add_segments(loop, &options);
    num_bad += expect_agreement({loop}, options);
    ++num_run;
  }
  fmt::print("given Loops: {} of {} run, {} wrong\n", num_run, loops.size(), num_bad);
}

// Fills a buffer with random numbers: some megabytes, then copies of them.
void fill(const TestGpu& gpu, const Loop& loop, size_t b, TestGpu::Address to, int64_t elements,
          const CheckOptions& options) {
  const ir::DType dtype = loop.buffers[b].dtype;
  const auto content = options.contents.find(static_cast<int>(b));
  if (content != options.contents.end()) {
    return gpu.upload(to, content->second.data(), bytes_of(content->second));
  }
  const int64_t first = std::min<int64_t>(elements, 1 << 20);
  const Literal literal = Literal::from({dtype, {first}}, [&](int64_t i) {
    const auto random = static_cast<double>((i * 2654435761 >> 7) % 8191);
    return ir::is_floating(dtype) ? random / 4096 - 1
                                  : static_cast<double>(int64_t(random) % options.index_extent);
  });
  const int64_t bytes = elements * ir::dtype_bytes(dtype);
  int64_t done = bytes_of(literal);
  gpu.upload(to, literal.data(), done);
  for (; done < bytes; done += std::min(done, bytes - done)) {
    gpu.copy(to + done, to, std::min(done, bytes - done));
  }
}

double median_ms(const TestGpu& gpu, const std::function<void()>& work) {
  for (int warm = 0; warm < 3; ++warm) work();
  std::vector<float> times = gpu.measure(20, work);
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  return times[10];
}

// Bytes that a launch must move: every element of every buffer that it reaches, once.
TEST(CudaDevice, BandwidthOfGivenLoops) {
  SKIP_WITHOUT_GPU();
  std::vector<Loop> loops = given_loops();
  if (loops.empty()) GTEST_SKIP() << "MONOGRAPH_LOOPS names no file of Loops";
  const TestGpu gpu;
  const int64_t half = int64_t{1} << 31;
  const TestGpu::Address from = gpu.allocate(half), to = gpu.allocate(half);
  gpu.fill(from, 37, half);
  const double copy_ms = median_ms(gpu, [&] { gpu.copy(to, from, half); });
  const double copy = 2.0 * half / copy_ms / 1e6;
  gpu.release(from), gpu.release(to);
  fmt::print("copy {:.0f} GB/s\n{:>4} {:>9} {:>9} {:>7} {:>6}  {}\n", copy, "loop", "MB", "us",
             "GB/s", "share", "kernel");
  std::erase_if(loops, [](const Loop& loop) {
    const bool has_segments =
        std::any_of(loop.instructions.begin(), loop.instructions.end(),
                    [](const ir::Instruction& i) { return i.kind == Kind::kSegmentSum; });
    return !has_segments && loop.num_rows() * loop.inner_extent < int64_t{1} << 22;
  });
  const CompiledKernels kernels = compile_loops(loops, DeviceSpec::h200(), test_options());
  for (size_t l = 0; l < loops.size(); ++l) {
    const Loop& loop = loops[l];
    CheckOptions options{.index_extent = 128};
    add_segments(loop, &options, 65536);
    std::vector<int64_t> sizes = buffer_sizes(loop, options.index_extent);
    for (const auto& [b, content] : options.contents) sizes[b] = content.num_elements();
    std::vector<TestGpu::Address> buffers;
    int64_t bytes = 0;
    for (size_t b = 0; b < sizes.size(); ++b) {
      const int64_t size = sizes[b] * ir::dtype_bytes(loop.buffers[b].dtype);
      if (loop.buffers[b].use != LoopBuffer::Use::kWorkspace) bytes += size;
      buffers.push_back(gpu.allocate(size));
      fill(gpu, loop, b, buffers.back(), sizes[b], options);
    }
    const TestGpu::Kernel kernel = gpu.load(kernels.images[l]);
    const double ms = median_ms(gpu, [&] { gpu.launch(kernel, buffers); });
    const double rate = static_cast<double>(bytes) / ms / 1e6;
    const ir::KernelLaunch& launch = kernels.images[l].launches[0];
    fmt::print(
        "{:>4} {:>9.1f} {:>9.1f} {:>7.0f} {:>5.0f}%  {} regs, {} x {} threads, rows {} inner {}\n",
        l, bytes / 1e6, ms * 1e3, rate, 100 * rate / copy, kernels.functions[l][0].registers,
        launch.grid[0], launch.block[0], loop.num_rows(), loop.inner_extent);
    for (const TestGpu::Address buffer : buffers) gpu.release(buffer);
  }
}

}  // namespace
}  // namespace monograph::codegen::cuda
