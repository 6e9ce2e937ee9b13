#include "codegen/cpu/render.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/philox.h"
#include "codegen/cpu/kernel_check.h"
#include "ir/loop/loop_parser.h"

namespace monograph::codegen {
namespace {

using ir::DType;
using ir::Literal;
using testing::HasSubstr;
using testing::Not;

ir::Loop loop(const std::string& text) {
  return ir::parse_loop(text);
}
std::string rendered(const std::string& text) {
  return render(loop(text), "kernel");
}

// One instruction list at several extents and splits.
std::vector<ir::Loop> variants(const std::string& body, bool splits_inner) {
  std::vector<ir::Loop> loops;
  for (const int64_t rows : {1, 3, 40}) {
    for (const int64_t inner : {1, 7, 1000}) {
      for (const int64_t blocks : {1, 4}) {
        for (const bool by_inner : {false, true}) {
          if (by_inner && !splits_inner) continue;
          if (!by_inner && blocks > rows) continue;
          const std::string head = fmt::format("loop rows [{}] inner {} blocks {} of {} ", rows,
                                               inner, blocks, by_inner ? "inner" : "rows");
          loops.push_back(loop(head + fmt::format(fmt::runtime(body), fmt::arg("n", inner))));
        }
      }
    }
  }
  return loops;
}

TEST(Render, PointwiseFunctions) {
  std::string body = "sweeps 1 {{ b0 = input f32 b1 = output f32 b2 = input f32\n";
  body += "%0 = element f32 load b0[{n}*r0 + j]\n%1 = element f32 load b2[j]\n";
  int next = 2;
  std::string sum = "%0";
  const auto add = [&](const std::string& value) {
    body += fmt::format("%{} = element f32 {}\n", next, value);
    body += fmt::format("%{} = element f32 add({}, %{})\n", next + 1, sum, next);
    sum = fmt::format("%{}", next + 1);
    next += 2;
  };
  for (const char* op : {"cos", "erf", "exp", "neg", "sin", "tanh", "abs"}) {
    add(fmt::format("{}(%0)", op));
  }
  for (const char* op : {"maximum", "minimum", "mul", "sub"}) add(fmt::format("{}(%0, %1)", op));
  body += fmt::format("%{} = element f32 abs(%1)\n%{} = scalar f32 constant 0.5\n", next, next + 1);
  body += fmt::format("%{} = element f32 add(%{}, %{})\n", next + 2, next, next + 1);
  const std::string positive = fmt::format("%{}", next + 2);
  next += 3;
  for (const char* op : {"log", "reciprocal", "rsqrt", "sqrt"}) {
    add(fmt::format("{}({})", op, positive));
  }
  add(fmt::format("div(%0, {})", positive));
  add(fmt::format("pow({}, %0)", positive));
  body += fmt::format("element f32 store b1[{{n}}*r0 + j] = {} @0 }}}}", sum);
  EXPECT_EQ(difference_from_oracle(variants(body, true)), "");
}

TEST(Render, LogicAndIntegers) {
  const std::string body = R"(sweeps 1 {{ b0 = input i32 b1 = input bool b2 = output i64
    b3 = output bool b4 = input i64 b5 = input u16
    %0 = element i64 load b0[{n}*r0 + j]
    %1 = element bool load b1[{n}*r0 + j]
    %2 = element i64 index [{n}*r0 + j + 3]
    %3 = row i64 load b4[r0] @0
    %4 = element bool ge(%2, %3)
    %5 = element i64 mul(%0, %2)
    %6 = scalar i64 constant -9
    %7 = element i64 where(%1, %5, %6)
    %8 = element bool logical_not(%1)
    %9 = element bool logical_or(%8, %4)
    %10 = element bool logical_and(%9, %1)
    %11 = element i64 load b5[j]
    %12 = element i64 sub(%7, %11)
    %13 = element i64 neg(%12)
    %14 = element i64 abs(%13)
    %15 = element i64 maximum(%14, %3)
    %16 = element bool ne(%15, %6)
    %17 = element bool logical_and(%16, %10)
    element i64 store b2[{n}*r0 + j] = %15 @0
    element bool store b3[{n}*r0 + j] = %17 @0 }})";
  EXPECT_EQ(difference_from_oracle(variants(body, true), {.index_extent = 50}), "");
}

TEST(Render, Conversions) {
  const std::string body =
      R"(sweeps 1 {{ b0 = input f32 b1 = input i64 b2 = output f64 b3 = output i32
    b4 = output bool b5 = output f32 b6 = input bool b7 = output u8
    %0 = element f32 load b0[{n}*r0 + j]
    %1 = element f64 convert(%0)
    %2 = scalar f64 constant 3
    %3 = element f64 div(%1, %2)
    %4 = element i64 convert(%0)
    %5 = element i64 load b1[{n}*r0 + j]
    %6 = element bool convert(%5)
    %7 = element f32 convert(%5)
    %8 = element bool load b6[{n}*r0 + j]
    %9 = element f32 convert(%8)
    %10 = element f32 add(%7, %9)
    %11 = element i64 convert(%8)
    element f64 store b2[{n}*r0 + j] = %3 @0
    element i64 store b3[{n}*r0 + j] = %4 @0
    element bool store b4[{n}*r0 + j] = %6 @0
    element f32 store b5[{n}*r0 + j] = %10 @0
    element i64 store b7[{n}*r0 + j] = %11 @0 }})";
  EXPECT_EQ(difference_from_oracle(variants(body, true), {.index_extent = 3}), "");
}

TEST(Render, RowReductionsAndKeptValues) {
  const std::string body =
      R"(sweeps 3 {{ b0 = input f32 b1 = output f32 b2 = output f32 b3 = input i32
    b4 = output i64
    %0 = element f32 load b0[{n}*r0 + j]
    %1 = element f32 exp(%0) keep @0
    %2 = row f32 reduce_max(%0) @0
    %3 = row f32 reduce_sum(%1) @0
    %4 = row f32 sub(%3, %2) @1
    %5 = element f32 sub(%1, %4)
    %6 = element f32 mul(%5, %5)
    %7 = row f32 reduce_sum(%6) @1
    %8 = row f32 sqrt(%7) @2
    %9 = element f32 div(%5, %8)
    %10 = element i64 load b3[{n}*r0 + j]
    %11 = row i64 reduce_sum(%10) @0
    %12 = row i64 reduce_max(%10) @1
    %13 = row i64 mul(%11, %12) @3
    row f32 store b2[r0] = %8 @2
    row i64 store b4[r0] = %13 @3
    element f32 store b1[{n}*r0 + j] = %9 @2 }})";
  const std::vector<ir::Loop> loops = variants(body, false);
  EXPECT_EQ(difference_from_oracle(loops, {.index_extent = 100}), "");
  EXPECT_EQ(difference_from_oracle(loops, {.index_extent = 100, .aliases = {{1, 0}}}), "");
}

TEST(Render, AccumulationsOverRowsAndBlocks) {
  for (const bool by_inner : {false, true}) {
    std::vector<ir::Loop> loops;
    for (const int64_t rows : {1, 5, 64}) {
      for (const int64_t inner : {1, 7, 300}) {
        for (const int64_t blocks : {1, 4}) {
          std::string text = fmt::format(
              "loop rows [{}] inner {} blocks {} of {} sweeps 1 partials b4 [0,{},{}] {{\n"
              "b0 = input f32 b1 = output f32 b2 = output f32 b3 = output bf16\n"
              "b4 = workspace f32 [{}]\n"
              "%0 = element f32 load b0[{}*r0 + j]\n"
              "element f32 accumulate_sum b1[j] = %0 keeps_inner @0\n"
              "element f32 accumulate_max b2[0] = %0 @0\n"
              "element f32 accumulate_max b3[2*j + 1] = %0 keeps_inner @0\n}}",
              rows, inner, blocks, by_inner ? "inner" : "rows", blocks * inner,
              blocks * (inner + 1), blocks * (2 * inner + 1), inner);
          loops.push_back(loop(text));
        }
      }
    }
    EXPECT_EQ(difference_from_oracle(loops), "");
  }
}

TEST(Render, RowValuesAreAccumulated) {
  EXPECT_EQ(difference_from_oracle(loop(R"(loop rows [7,3] inner 10 blocks 4 of rows sweeps 1
    partials b3 [0,4] { b0 = input f32 b1 = output f32 b2 = output f32 b3 = workspace f32 [8]
    %0 = element f32 load b0[30*r0 + 10*r1 + j]
    %1 = row f32 reduce_sum(%0) @0
    %2 = row f32 exp(%1) @1
    row f32 accumulate_sum b1[0] = %2 @1
    row f32 accumulate_max b2[0] = %2 @1 })")),
            "");
}

// Rows of [4,3,5] read in other orders, broadcast, and through an index.
TEST(Render, RowIndices) {
  const ir::Loop strided = loop(R"(loop rows [4,3,5] inner 7 blocks 3 of rows sweeps 1 {
    b0 = input f32 b1 = input f32 b2 = input i64 b3 = output f32 b4 = input f32
    %0 = element f32 load b0[r0 + 4*r1 + 12*r2 + 60*j + 2]
    %1 = row f32 load b1[5*r1] @0
    %2 = row i64 load b2[5*r0 + r2] @0
    %3 = element f32 load b1[7*%2 + j]
    %4 = element f32 add(%0, %1)
    %5 = element f32 mul(%4, %3)
    %6 = element f32 load b4[r2]
    %7 = element f32 sub(%5, %6)
    element f32 store b3[105*r0 + 35*r1 + 7*r2 + j] = %7 @0 })");
  EXPECT_EQ(difference_from_oracle(strided, {.index_extent = 9}), "");
  // r0 is decoded only where an address needs it by itself.
  const std::string even = rendered(R"(loop rows [4,3] inner 7 blocks 1 of rows sweeps 1 {
    b0 = input f32 b1 = output f32
    %0 = element f32 load b0[21*r0 + 7*r1 + j]
    element f32 store b1[21*r0 + 7*r1 + j] = %0 @0 })");
  EXPECT_THAT(even, HasSubstr("7L * row"));
  EXPECT_THAT(even, Not(HasSubstr("r0")));
}

TEST(Render, Bf16AndF16AreRoundedToNearestEven) {
  const ir::Loop copy = loop(R"(loop rows [] inner 400 blocks 1 of rows sweeps 1 {
    b0 = input f32 b1 = output bf16 b2 = output f16 b3 = input bf16 b4 = output f32 b5 = input f16
    b6 = output f32
    %0 = element f32 load b0[j]
    %1 = element f32 load b3[j]
    %2 = element f32 load b5[j]
    element f32 store b1[j] = %0 @0
    element f32 store b2[j] = %0 @0
    element f32 store b4[j] = %1 @0
    element f32 store b6[j] = %2 @0 })");
  CheckOptions options;
  options.contents[0] = Literal::from({DType::kF32, {400}}, [](int64_t i) -> double {
    if (i == 0) return std::numeric_limits<double>::quiet_NaN();
    if (i == 1) return -std::numeric_limits<double>::infinity();
    if (i == 2) return 3.4e38;  // becomes infinity in bf16
    // Halfway between two bf16 numbers, a little above, a little below.
    return std::bit_cast<float>(0x3f808000u + 0x10000u * static_cast<uint32_t>(i / 3) +
                                static_cast<uint32_t>(i % 3) - 1);
  });
  const CompiledKernels kernels = compile_loops({&copy, 1}, test_compile_options());
  BufferSet set = make_buffers(copy, options);
  kernels.functions[0](set.addresses.data());
  for (const auto& [from, to] : {std::pair{0, 1}, {0, 2}, {3, 4}, {5, 6}}) {
    for (int64_t i = 0; i < 400; ++i) {
      const double expected = ir::round_to(set.storage[to].type().dtype, set.storage[from].get(i));
      const double got = set.storage[to].get(i);
      EXPECT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected)))
          << "b" << from << " to b" << to << " at " << i << ": " << got << ", not " << expected;
    }
  }
}

TEST(Render, RandomNumbersAreThoseOfPhilox) {
  for (const char* terms : {"5000*r0 + j", "5000*r0 + j + 3", "r0 + 2*j", "7*r0"}) {
    const ir::Loop random =
        loop(fmt::format(R"(loop rows [2] inner 5000 blocks 1 of rows sweeps 1 {{
      b0 = input i64 b1 = input i64 b2 = output f32
      %0 = scalar i64 load b0[0]
      %1 = scalar i64 load b1[0]
      %2 = scalar i64 constant 4000000000
      %3 = element f32 philox(%0, %1, %2) [{}]
      element f32 store b2[5000*r0 + j] = %3 @0 }})",
                         terms));
    CheckOptions options;
    options.contents[0] = Literal::from_i64({1}, {0x123456789abcdef});
    options.contents[1] = Literal::from_i64({1}, {77});
    EXPECT_EQ(difference_from_oracle(random, options), "") << terms;
  }
  const ir::Loop inner = loop(R"(loop rows [] inner 5001 blocks 4 of inner sweeps 1 {
    b0 = output f32
    %0 = scalar i64 constant 5
    %1 = scalar i64 constant 6
    %2 = scalar i64 argument 1
    %3 = element f32 philox(%0, %1, %2) [j + 1]
    element f32 store b0[j] = %3 @0 })");
  const CompiledKernels kernels = compile_loops({&inner, 1}, test_compile_options());
  BufferSet set = make_buffers(inner, {});
  int64_t scalars[] = {1, 7};  // of this launch: another one gets another stream
  set.addresses.push_back(scalars);
  kernels.functions[0](set.addresses.data());
  for (const int64_t j : {0, 1, 2, 3, 1263, 1264, 5000}) {
    EXPECT_EQ(set.storage[0].get(j), philox_uniform(5, 6, 7, j + 1)) << j;
  }
}

TEST(Render, MaximaKeepNanAndInfinity) {
  const ir::Loop maxima = loop(R"(loop rows [4] inner 100 blocks 2 of rows sweeps 1
    partials b4 [0,2] { b0 = input f32 b1 = output f32 b2 = output f32 b3 = output f32
    b4 = workspace f32 [202]
    %0 = element f32 load b0[100*r0 + j]
    %1 = row f32 reduce_max(%0) @0
    row f32 store b1[r0] = %1 @1
    element f32 accumulate_max b2[0] = %0 @0
    element f32 accumulate_max b3[j] = %0 keeps_inner @0 })");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CheckOptions options;
  options.contents[0] = Literal::from({DType::kF32, {400}}, [](int64_t i) -> double {
    if (i < 100) return -kInfinity;                                  // row 0: nothing else
    if (i == 163) return std::numeric_limits<double>::quiet_NaN();   // row 1: one NaN
    return i < 300 ? std::sin(static_cast<double>(i)) : -3 - i % 7;  // row 3: below zero
  });
  EXPECT_EQ(difference_from_oracle(maxima, options), "");
  const CompiledKernels kernels = compile_loops({&maxima, 1}, test_compile_options());
  BufferSet set = make_buffers(maxima, options);
  kernels.functions[0](set.addresses.data());
  EXPECT_EQ(set.storage[1].get(0), -kInfinity);
  EXPECT_TRUE(std::isnan(set.storage[1].get(1)));
  EXPECT_EQ(set.storage[1].get(3), -3);
  EXPECT_TRUE(std::isnan(set.storage[2].get(0)));
  EXPECT_TRUE(std::isnan(set.storage[3].get(63)));
}

TEST(Render, ExponentialAtItsEnds) {
  const ir::Loop exponential = loop(R"(loop rows [] inner 20000 blocks 1 of rows sweeps 1 {
    b0 = input f32 b1 = output f32
    %0 = element f32 load b0[j]
    %1 = element f32 exp(%0)
    element f32 store b1[j] = %1 @0 })");
  CheckOptions options;
  options.contents[0] = Literal::from({DType::kF32, {20000}}, [](int64_t i) -> double {
    if (i == 0) return -std::numeric_limits<double>::infinity();
    if (i == 1) return std::numeric_limits<double>::infinity();
    if (i == 2) return std::numeric_limits<double>::quiet_NaN();
    return -120 + static_cast<double>(i) * 0.0112;  // to 104
  });
  const CompiledKernels kernels = compile_loops({&exponential, 1}, test_compile_options());
  BufferSet set = make_buffers(exponential, options);
  kernels.functions[0](set.addresses.data());
  EXPECT_EQ(set.storage[1].get(0), 0);
  EXPECT_EQ(set.storage[1].get(1), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(set.storage[1].get(2)));
  for (int64_t i = 3; i < 20000; ++i) {
    const double x = set.storage[0].get(i), got = set.storage[1].get(i);
    const double expected = static_cast<float>(std::exp(x));
    if (x < -86.9) {
      EXPECT_EQ(got, 0) << x;
    } else if (std::isinf(expected)) {
      EXPECT_EQ(got, expected) << x;
    } else {
      EXPECT_NEAR(got / expected, 1, 2e-7) << x;
    }
  }
}

TEST(Render, LongRowsAreKeptOnTheHeap) {
  const std::string text = R"(loop rows [3] inner 20000 blocks 3 of rows sweeps 2 {
    b0 = input f32 b1 = output f32
    %0 = element f32 load b0[20000*r0 + j] keep @0
    %1 = row f32 reduce_sum(%0) @0
    %2 = element f32 add(%0, %1)
    element f32 store b1[20000*r0 + j] = %2 @1 })";
  EXPECT_THAT(rendered(text), HasSubstr("__builtin_malloc(20000L"));
  EXPECT_EQ(difference_from_oracle(loop(text)), "");
  EXPECT_EQ(difference_from_oracle(loop(text), {.aliases = {{1, 0}}}), "");
}

TEST(Render, ScalarsAreComputedOnceAndStoredLast) {
  const ir::Loop step = loop(R"(loop rows [] inner 5 blocks 1 of rows sweeps 1 {
    b0 = input i64 b1 = output i64 b2 = output f32
    %0 = scalar i64 load b0[0]
    %1 = scalar i64 constant 1
    %2 = scalar i64 add(%0, %1)
    scalar i64 store b1[0] = %2
    %4 = element i64 load b0[0]
    %5 = element f32 convert(%4)
    element f32 store b2[j] = %5 @0 })");
  EXPECT_EQ(difference_from_oracle(step, {.index_extent = 9, .aliases = {{1, 0}}}), "");
  const ir::Loop only_scalars = loop(R"(loop rows [] inner 1 blocks 1 of rows sweeps 1 {
    b0 = input f32 b1 = output f32
    %0 = scalar f32 load b0[0]
    %1 = scalar f32 sqrt(%0)
    scalar f32 store b1[0] = %1 })");
  CheckOptions options;
  options.contents[0] = Literal::scalar(DType::kF32, 2);
  EXPECT_EQ(difference_from_oracle(only_scalars, options), "");
}

TEST(Render, ElementIntegersAreNarrowWhereProven) {
  const auto text_of = [](const std::string& offset) {
    return rendered(
        "loop rows [9] inner 100 blocks 1 of rows sweeps 1 { b0 = input i64 b1 = output bool "
        "%0 = row i64 load b0[r0] @0 %1 = element i64 index [100*r0 + j + " +
        offset + "] %2 = element bool eq(%1, %0) element bool store b1[100*r0 + j] = %2 @0 }");
  };
  EXPECT_THAT(text_of("0"), HasSubstr("const int v1"));
  EXPECT_THAT(text_of("0"), HasSubstr("v1 == n0"));
  EXPECT_THAT(text_of("3000000000"), HasSubstr("const long v1"));
  // The row's number itself is beyond int: it must equal none.
  const ir::Loop mask = loop(R"(loop rows [2] inner 4 blocks 1 of rows sweeps 1 {
    b0 = input i64 b1 = output bool
    %0 = row i64 load b0[r0] @0
    %1 = element i64 index [j]
    %2 = element bool lt(%1, %0)
    element bool store b1[4*r0 + j] = %2 @0 })");
  CheckOptions options;
  options.contents[0] = Literal::from_i64({2}, {int64_t{1} << 40, -(int64_t{1} << 40)});
  EXPECT_EQ(difference_from_oracle(mask, options), "");
}

TEST(Render, SmallKernelsStayOnOneThread) {
  const auto text_of = [](int64_t rows) {
    return rendered(
        fmt::format("loop rows [{}] inner 128 blocks 4 of rows sweeps 1 {{ b0 = input f32 "
                    "b1 = output f32 %0 = element f32 load b0[128*r0 + j] "
                    "element f32 store b1[128*r0 + j] = %0 @0 }}",
                    rows));
  };
  EXPECT_THAT(text_of(8), Not(HasSubstr("omp parallel")));
  EXPECT_THAT(text_of(8192), HasSubstr("omp parallel for schedule(static)"));
}

TEST(Render, ResultsDoNotDependOnTheNumberOfThreads) {
  const ir::Loop sums = loop(R"(loop rows [600] inner 500 blocks 16 of rows sweeps 1
    partials b3 [0,8000] { b0 = input f32 b1 = output f32 b2 = output f32 b3 = workspace f32 [8016]
    %0 = element f32 load b0[500*r0 + j]
    %1 = element f32 exp(%0)
    element f32 accumulate_sum b1[j] = %1 keeps_inner @0
    element f32 accumulate_sum b2[0] = %1 @0 })");
  const CompiledKernels kernels = compile_loops({&sums, 1}, test_compile_options());
  EXPECT_THAT(render(sums, "kernel"), HasSubstr("omp parallel"));
  void* const openmp = dlopen("libgomp.so.1", RTLD_NOW);
  ASSERT_NE(openmp, nullptr);
  const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(openmp, "omp_set_num_threads"));
  const auto max_threads = reinterpret_cast<int (*)()>(dlsym(openmp, "omp_get_max_threads"));
  const int before = max_threads();
  std::vector<BufferSet> results;
  for (const int threads : {1, 2, 4, 7}) {
    set_threads(threads);
    results.push_back(make_buffers(sums, {}));
    kernels.functions[0](results.back().addresses.data());
  }
  set_threads(before);
  for (size_t r = 1; r < results.size(); ++r) {
    EXPECT_EQ(results[r].storage[1], results[0].storage[1]);
    EXPECT_EQ(results[r].storage[2], results[0].storage[2]);
  }
}

}  // namespace
}  // namespace monograph::codegen
