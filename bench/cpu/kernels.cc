// Speed of generated kernels against a copy of memory larger than the caches, in one run: for each
// kernel the bytes it must move a second, beside the copy's. The answer is checked against the
// oracle first, on a small case of the same kernel.
//
// Usage: bench_cpu_kernels [name ...]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "codegen/cpu/compile.h"
#include "ir/literal.h"
#include "ir/loop/evaluate.h"
#include "ir/loop/loop_parser.h"
#include "runtime/cpu/aligned_memory.h"
#include "runtime/cpu/copy_bandwidth.h"

namespace {

using monograph::ir::Literal;
using monograph::ir::Loop;

struct Kernel {
  std::string name;
  int64_t rows, columns;
  std::function<std::string(int64_t rows, int64_t columns)> text;
  double elements_moved;  // of rows x columns, 4 bytes each
};

std::string softmax(int64_t rows, int64_t columns) {
  return fmt::format(R"(loop rows [{0}] inner {1} blocks 64 of rows sweeps 3 {{
    b0 = input f32
    b1 = output f32
    %0 = element f32 load b0[{1}*r0 + j]
    %1 = row f32 reduce_max(%0) @0
    %2 = element f32 sub(%0, %1)
    %3 = element f32 exp(%2) keep @1
    %4 = row f32 reduce_sum(%3) @1
    %5 = row f32 reciprocal(%4) @2
    %6 = element f32 mul(%3, %5)
    element f32 store b1[{1}*r0 + j] = %6 @2
  }})",
                     rows, columns);
}

// Columns after the row's number (modulo the columns) are masked, as in causal attention.
std::string masked_softmax(int64_t rows, int64_t columns) {
  return fmt::format(R"(loop rows [{0},{1}] inner {1} blocks 64 of rows sweeps 3 {{
    b0 = input f32
    b1 = output f32
    %0 = element f32 load b0[{2}*r0 + {1}*r1 + j]
    %1 = element i64 index [j]
    %2 = row i64 index [r1] @0
    %3 = element bool gt(%1, %2)
    %4 = element f32 constant -inf
    %5 = element f32 where(%3, %4, %0)
    %6 = row f32 reduce_max(%5) @0
    %7 = element f32 sub(%5, %6)
    %8 = element f32 exp(%7) keep @1
    %9 = row f32 reduce_sum(%8) @1
    %10 = row f32 reciprocal(%9) @2
    %11 = element f32 mul(%8, %10)
    element f32 store b1[{2}*r0 + {1}*r1 + j] = %11 @2
  }})",
                     std::max<int64_t>(1, rows / columns), columns, columns * columns);
}

std::string layer_norm(int64_t rows, int64_t columns) {
  return fmt::format(R"(loop rows [{0}] inner {1} blocks 64 of rows sweeps 3 {{
    b0 = input f32
    b1 = input f32
    b2 = input f32
    b3 = output f32
    %0 = element f32 load b0[{1}*r0 + j]
    %1 = row f32 reduce_sum(%0) @0
    %2 = scalar f32 constant {2}
    %3 = row f32 mul(%1, %2) @1
    %4 = element f32 sub(%0, %3)
    %5 = element f32 mul(%4, %4)
    %6 = row f32 reduce_sum(%5) @1
    %7 = row f32 mul(%6, %2) @2
    %8 = scalar f32 constant 1e-05
    %9 = row f32 add(%7, %8) @2
    %10 = row f32 rsqrt(%9) @2
    %11 = element f32 mul(%4, %10)
    %12 = element f32 load b1[j]
    %13 = element f32 mul(%11, %12)
    %14 = element f32 load b2[j]
    %15 = element f32 add(%13, %14)
    element f32 store b3[{1}*r0 + j] = %15 @2
  }})",
                     rows, columns, 1.0 / static_cast<double>(columns));
}

// x * 0.5 * (1 + tanh(0.79788 * (x + 0.044715 x^3)))
std::string gelu(int64_t rows, int64_t columns) {
  return fmt::format(R"(loop rows [] inner {0} blocks 64 of inner sweeps 1 {{
    b0 = input f32
    b1 = output f32
    %0 = element f32 load b0[j]
    %1 = scalar f32 constant 3
    %2 = element f32 pow(%0, %1)
    %3 = scalar f32 constant 0.044715
    %4 = element f32 mul(%2, %3)
    %5 = element f32 add(%0, %4)
    %6 = scalar f32 constant 0.7978845608
    %7 = element f32 mul(%5, %6)
    %8 = element f32 tanh(%7)
    %9 = scalar f32 constant 1
    %10 = element f32 add(%8, %9)
    %11 = scalar f32 constant 0.5
    %12 = element f32 mul(%0, %11)
    %13 = element f32 mul(%12, %10)
    element f32 store b1[j] = %13 @0
  }})",
                     rows * columns);
}

std::string dropout(int64_t rows, int64_t columns) {
  return fmt::format(R"(loop rows [] inner {0} blocks 64 of inner sweeps 1 {{
    b0 = input f32
    b1 = output f32
    %0 = scalar i64 constant 77
    %1 = scalar i64 constant 3
    %2 = scalar i64 constant 5
    %3 = element f32 philox(%0, %1, %2) [j]
    %4 = scalar f32 constant 0.1
    %5 = element bool ge(%3, %4)
    %6 = element f32 load b0[j]
    %7 = scalar f32 constant 1.1111111
    %8 = element f32 mul(%6, %7)
    %9 = scalar f32 constant 0
    %10 = element f32 where(%5, %8, %9)
    element f32 store b1[j] = %10 @0
  }})",
                     rows * columns);
}

std::string adamw(int64_t rows, int64_t columns) {
  return fmt::format(R"(loop rows [] inner {0} blocks 64 of inner sweeps 1 {{
    b0 = input f32
    b1 = input f32
    b2 = input f32
    b3 = input f32
    b4 = output f32
    b5 = output f32
    b6 = output f32
    %0 = element f32 load b0[j]
    %1 = element f32 load b1[j]
    %2 = element f32 load b2[j]
    %3 = element f32 load b3[j]
    %4 = scalar f32 constant 0.9
    %5 = scalar f32 constant 0.1
    %6 = element f32 mul(%2, %4)
    %7 = element f32 mul(%0, %5)
    %8 = element f32 add(%6, %7)
    %9 = scalar f32 constant 0.999
    %10 = scalar f32 constant 0.001
    %11 = element f32 mul(%3, %3)
    %12 = element f32 mul(%11, %9)
    %13 = element f32 mul(%0, %0)
    %14 = element f32 mul(%13, %10)
    %15 = element f32 add(%12, %14)
    %16 = element f32 sqrt(%15)
    %17 = scalar f32 constant 1e-08
    %18 = element f32 add(%16, %17)
    %19 = element f32 div(%8, %18)
    %20 = element f32 mul(%19, %10)
    %21 = element f32 sub(%1, %20)
    element f32 store b4[j] = %21 @0
    element f32 store b5[j] = %8 @0
    element f32 store b6[j] = %15 @0
  }})",
                     rows * columns);
}

std::string column_sum(int64_t rows, int64_t columns) {
  return fmt::format(R"(loop rows [{0}] inner {1} blocks 16 of rows sweeps 1 partials b2 [0] {{
    b0 = input f32
    b1 = output f32
    b2 = workspace f32 [{2}]
    %0 = element f32 load b0[{1}*r0 + j]
    element f32 accumulate_sum b1[j] = %0 keeps_inner @0
  }})",
                     rows, columns, 16 * columns);
}

std::string sum_of_squares(int64_t rows, int64_t columns) {
  return fmt::format(R"(loop rows [] inner {0} blocks 64 of inner sweeps 1 partials b2 [0] {{
    b0 = input f32
    b1 = output f32
    b2 = workspace f32 [64]
    %0 = element f32 load b0[j]
    %1 = element f32 mul(%0, %0)
    element f32 accumulate_sum b1[0] = %1 @0
  }})",
                     rows * columns);
}

std::vector<Literal> make_buffers(const Loop& loop, int64_t num_elements) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-2, 2);
  std::vector<Literal> buffers;
  for (const auto& buffer : loop.buffers) {
    buffers.emplace_back(
        monograph::ir::TensorType{buffer.dtype, {std::max(num_elements, buffer.num_elements)}});
    for (float& x : buffers.back().as<float>()) x = uniform(random);
  }
  return buffers;
}

std::vector<void*> addresses(std::vector<Literal>& buffers) {
  std::vector<void*> result;
  for (Literal& buffer : buffers) result.push_back(buffer.data());
  return result;
}

double largest_difference(const Kernel& kernel) {
  const int64_t rows = 64, columns = 64;
  const Loop loop = monograph::ir::parse_loop(kernel.text(rows, columns), kernel.name);
  const auto compiled = monograph::codegen::compile_loops({&loop, 1});
  std::vector<Literal> expected = make_buffers(loop, rows * columns);
  std::vector<Literal> got = expected;
  monograph::ir::evaluate(loop, addresses(expected));
  compiled.functions[0](addresses(got).data());
  double largest = 0;
  for (size_t b = 0; b < loop.buffers.size(); ++b) {
    if (loop.buffers[b].use != monograph::ir::LoopBuffer::Use::kOutput) continue;
    for (int64_t i = 0; i < expected[b].num_elements(); ++i) {
      const double e = expected[b].get(i);
      largest = std::max(largest, std::fabs(got[b].get(i) - e) / (1 + std::fabs(e)));
    }
  }
  return largest;
}

void measure(const Kernel& kernel, double copy_bandwidth) {
  const double difference = largest_difference(kernel);
  const Loop loop =
      monograph::ir::parse_loop(kernel.text(kernel.rows, kernel.columns), kernel.name);
  const auto compiled = monograph::codegen::compile_loops({&loop, 1});
  // In large pages, as an executor's memory is.
  std::vector<monograph::runtime::AlignedMemory> memory;
  std::vector<void*> arguments;
  for (const Literal& content : make_buffers(loop, kernel.rows * kernel.columns)) {
    memory.emplace_back(content.type().num_bytes());
    std::memcpy(memory.back().data(), content.data(), content.type().num_bytes());
    arguments.push_back(memory.back().data());
  }
  double best = 1e30;
  for (int round = 0; round < 7; ++round) {
    const auto start = std::chrono::steady_clock::now();
    compiled.functions[0](arguments.data());
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count());
  }
  const double elements = static_cast<double>(kernel.rows * kernel.columns);
  const double bandwidth = elements * kernel.elements_moved * 4 / best;
  fmt::print("{:16} {:6} x {:6}  {:8.3f} ms  {:6.1f} GB/s  {:5.2f} of copy  {:6.2f} el/ns  {}\n",
             kernel.name, kernel.rows, kernel.columns, best * 1e3, bandwidth / 1e9,
             bandwidth / copy_bandwidth, elements / best / 1e9,
             difference < 2e-5 ? "correct" : fmt::format("WRONG by {}", difference));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> chosen(argv + 1, argv + argc);
  const std::vector<Kernel> kernels = {{"softmax", 16384, 1024, softmax, 2},
                                       {"softmax", 131072, 128, softmax, 2},
                                       {"masked_softmax", 131072, 128, masked_softmax, 2},
                                       {"layer_norm", 16384, 1024, layer_norm, 2},
                                       {"layer_norm", 131072, 128, layer_norm, 2},
                                       {"gelu", 4096, 4096, gelu, 2},
                                       {"dropout", 4096, 4096, dropout, 2},
                                       {"adamw", 4096, 4096, adamw, 7},
                                       {"column_sum", 16384, 1024, column_sum, 1},
                                       {"sum_of_squares", 4096, 4096, sum_of_squares, 1},
                                       {"adamw", 64, 128, adamw, 7},
                                       {"dropout", 64, 128, dropout, 2},
                                       {"gelu", 64, 128, gelu, 2},
                                       {"softmax", 64, 128, softmax, 2},
                                       {"layer_norm", 512, 128, layer_norm, 2},
                                       {"masked_softmax", 8192, 128, masked_softmax, 2}};
  const double copy = monograph::runtime::measure_copy_bandwidth();
  fmt::print("copy: {:.1f} GB/s read and written\n", copy / 1e9);
  for (const Kernel& kernel : kernels) {
    const bool is_chosen =
        chosen.empty() || std::find(chosen.begin(), chosen.end(), kernel.name) != chosen.end();
    if (is_chosen) measure(kernel, copy);
  }
}
