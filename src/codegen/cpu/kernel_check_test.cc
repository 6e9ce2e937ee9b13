#include "codegen/cpu/kernel_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ir/loop/evaluate.h"
#include "ir/loop/loop_parser.h"

namespace monograph::codegen {
namespace {

using ir::DType;
using ir::InstructionKind;
using ir::Literal;

void reach(std::vector<int64_t>& sizes, int buffer, int64_t last) {
  sizes[buffer] = std::max(sizes[buffer], last + 1);
}

bool agree(DType dtype, double got, double expected, double magnitude, double relative) {
  if (std::isnan(expected)) return std::isnan(got);
  if (got == expected) return true;
  if (dtype == DType::kBF16) relative = std::max(relative, 1.0 / 128);
  if (dtype == DType::kF16) relative = std::max(relative, 1.0 / 1024);
  if (dtype == DType::kF64) relative = 1e-12;
  const double allowed = relative * (magnitude + std::fabs(expected));
  return ir::is_floating(dtype) && std::fabs(got - expected) <= allowed;
}

}  // namespace

std::vector<int64_t> buffer_sizes(const ir::Loop& loop, int64_t index_extent) {
  std::vector<int64_t> sizes(loop.buffers.size(), 1);
  for (const ir::Instruction& i : loop.instructions) {
    const bool has_memory = i.kind == InstructionKind::kLoad || i.kind == InstructionKind::kStore ||
                            i.kind == InstructionKind::kAccumulate ||
                            i.kind == InstructionKind::kSegmentSum;
    if (!has_memory) continue;
    int64_t last = i.access.offset + std::abs(i.access.inner_stride) * (loop.inner_extent - 1) +
                   i.access.index_stride * (index_extent - 1);
    for (size_t d = 0; d < i.access.row_strides.size(); ++d) {
      last += i.access.row_strides[d] * (loop.row_extents[d] - 1);
    }
    reach(sizes, i.access.buffer, last);
  }
  for (size_t b = 0; b < sizes.size(); ++b) {
    sizes[b] = std::max(sizes[b], loop.buffers[b].num_elements);
  }
  return sizes;
}

BufferSet make_buffers(const ir::Loop& loop, const CheckOptions& options) {
  const std::vector<int64_t> sizes = buffer_sizes(loop, options.index_extent);
  std::mt19937_64 random(options.seed);
  BufferSet set;
  set.storage.resize(loop.buffers.size());
  for (size_t b = 0; b < loop.buffers.size(); ++b) {
    const ir::LoopBuffer& buffer = loop.buffers[b];
    std::uniform_real_distribution<double> real(-2, 2);
    std::uniform_int_distribution<int64_t> whole(0, std::max<int64_t>(options.index_extent, 1) - 1);
    const bool is_input = buffer.use == ir::LoopBuffer::Use::kInput;
    set.storage[b] = Literal::from({buffer.dtype, {sizes[b]}}, [&](int64_t) -> double {
      if (!is_input) return 7;
      if (buffer.dtype == DType::kBool) return random() % 2;
      if (ir::is_floating(buffer.dtype)) return real(random);
      return static_cast<double>(whole(random));
    });
    const auto content = options.contents.find(static_cast<int>(b));
    if (content != options.contents.end()) set.storage[b] = content->second;
    set.addresses.push_back(set.storage[b].data());
  }
  for (const auto& [output, input] : options.aliases) {
    set.storage[output] = Literal();
    set.addresses[output] = set.storage[input].data();
  }
  return set;
}

std::string difference(const ir::Loop& loop, const BufferSet& got, const BufferSet& expected,
                       double relative) {
  for (size_t b = 0; b < loop.buffers.size(); ++b) {
    const Literal& e = expected.storage[b];
    const Literal& g = got.storage[b];
    const bool is_workspace = loop.buffers[b].use == ir::LoopBuffer::Use::kWorkspace;
    if (is_workspace || e.data() == nullptr) continue;
    double magnitude = 0;  // of the buffer's finite elements: what a rounding is compared with
    for (int64_t i = 0; i < e.num_elements(); ++i) {
      if (std::isfinite(e.get(i))) magnitude = std::max(magnitude, std::fabs(e.get(i)));
    }
    for (int64_t i = 0; i < e.num_elements(); ++i) {
      if (!ir::is_floating(e.type().dtype) && e.get_i64(i) == g.get_i64(i)) continue;
      if (agree(e.type().dtype, g.get(i), e.get(i), magnitude, relative)) continue;
      return fmt::format("b{}[{}] is {}, expected {}, in\n{}", b, i, g.get(i), e.get(i),
                         loop.str());
    }
  }
  return "";
}

std::string difference_from_oracle(const std::vector<ir::Loop>& loops,
                                   const CheckOptions& options) {
  const CompiledKernels kernels = compile_loops(loops, test_compile_options());
  for (size_t l = 0; l < loops.size(); ++l) {
    BufferSet expected = make_buffers(loops[l], options);
    BufferSet got = make_buffers(loops[l], options);
    ir::evaluate(loops[l], expected.addresses);
    kernels.functions[l](got.addresses.data());
    const std::string text = difference(loops[l], got, expected, options.relative);
    if (!text.empty()) return text + "source " + kernels.sources[l];
  }
  return "";
}

std::string difference_from_oracle(const ir::Loop& loop, const CheckOptions& options) {
  return difference_from_oracle(std::vector<ir::Loop>{loop}, options);
}

CompileOptions test_compile_options() {
  return {.cache_directory = testing::TempDir() + "monograph-codegen-test"};
}

TEST(KernelCheck, SeesOneWrongElement) {
  const ir::Loop loop = ir::parse_loop(R"(loop rows [3] inner 5 blocks 1 of rows sweeps 1 {
    b0 = input f32
    b1 = output f32
    %0 = element f32 load b0[5*r0 + j]
    element f32 store b1[5*r0 + j] = %0 @0
  })");
  const BufferSet expected = make_buffers(loop, {});
  BufferSet got = make_buffers(loop, {});
  EXPECT_EQ(difference(loop, got, expected), "");
  got.storage[1].set(14, 7.5);
  EXPECT_THAT(difference(loop, got, expected), testing::StartsWith("b1[14] is 7.5"));
}

}  // namespace monograph::codegen
