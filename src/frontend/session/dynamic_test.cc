#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/message_of.h"
#include "frontend/session/guards.h"
#include "frontend/session/monograph.h"

namespace monograph::session {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ir::Literal rows(int64_t count, int64_t width) {
  return ir::Literal::from({ir::DType::kF32, {count, width}},
                           [](int64_t i) { return static_cast<double>(i % 7) / 4 - 0.6; });
}

ir::Literal tokens(int64_t batch, int64_t time, int64_t salt) {
  return ir::Literal::from({ir::DType::kI64, {batch, time}},
                           [&](int64_t i) { return static_cast<double>((salt * i + i * i) % 64); });
}

double sum_of(const ir::Literal& literal) {
  double sum = 0;
  for (int64_t i = 0; i < literal.num_elements(); ++i) sum += literal.get(i);
  return sum;
}

class DynamicTest : public testing::TestWithParam<std::string> {
 protected:
  CompileOptions with(DynamicShapes shapes) const {
    return {.backend = GetParam(), .input_names = {"x", "y"}, .dynamic_shapes = std::move(shapes)};
  }
};

const Dim kBatch{"batch", 1, 32};

TEST_P(DynamicTest, OneCompilationServesAllSizes) {
  Compiled step = compile(
      [](const Tensor& x) {
        const Tensor shifted = x - amax(x, {1}, true);
        return Outputs{{"loss", (shifted * shifted).mean()}, {"rows", sum(exp(x), {1})}};
      },
      with({{"x", {kBatch}}}));
  Compiled fixed = compile(
      [](const Tensor& x) {
        const Tensor shifted = x - amax(x, {1}, true);
        return Outputs{{"loss", (shifted * shifted).mean()}, {"rows", sum(exp(x), {1})}};
      },
      {.backend = "interpret", .recompile_limit = 64});
  for (int64_t size = 1; size <= 32; ++size) {
    const ir::Literal x = rows(size, 5);
    const Results found = step(x), expected = fixed(x);
    EXPECT_NEAR(found.loss(), expected.loss(), 1e-5) << size;
    ASSERT_EQ(found["rows"].type(), expected["rows"].type());
    for (int64_t i = 0; i < size; ++i) {
      EXPECT_NEAR(found["rows"].get(i), expected["rows"].get(i), 1e-5) << size << " " << i;
    }
  }
  EXPECT_EQ(step.num_signatures(), 1);
  EXPECT_THAT(step.specializations(), IsEmpty());
  EXPECT_THAT(step.guard_misses(), IsEmpty());
}

struct Training {
  std::vector<double> losses;
  int num_signatures = 0;
  std::vector<std::string> specializations;
};

// A GPT with dropout, trained on batches of changing batch and length.
Training train_gpt(CompileOptions options) {
  nn::GPT model({.vocab_size = 64,
                 .block_size = 32,
                 .n_layer = 2,
                 .n_head = 2,
                 .n_embd = 32,
                 .dropout = 0.2});
  optim::AdamW optimizer(model.parameters(),
                         {.learning_rate = optim::Schedule::constant(1e-2), .max_norm = 1.0});
  Session session({.seed = 5, .options = options});
  Compiled step = session.compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = model.loss(x, y);
    optimizer.step(loss.backward());
    return loss;
  });
  Training training;
  for (const auto& [batch, time] : std::vector<std::pair<int64_t, int64_t>>{
           {8, 32}, {8, 31}, {3, 17}, {1, 32}, {2, 2}, {7, 9}, {8, 32}}) {
    training.losses.push_back(step(tokens(batch, time, 7), tokens(batch, time, 11)).loss());
  }
  training.num_signatures = step.num_signatures();
  training.specializations = step.specializations();
  return training;
}

TEST_P(DynamicTest, AGptTrainsWithAnyBatchAndLength) {
  const std::vector<Dim> dims = {{"batch", 1, 8}, {"time", 2, 32}};
  const Training dynamic = train_gpt(with({{"x", dims}, {"y", dims}}));
  EXPECT_THAT(dynamic.specializations, IsEmpty());
  EXPECT_EQ(dynamic.num_signatures, 2);  // a length of 32 reads the whole table of positions
  const Training fixed = train_gpt({.backend = GetParam(), .recompile_limit = 20});
  EXPECT_EQ(fixed.num_signatures, 6);
  for (size_t i = 0; i < fixed.losses.size(); ++i) {
    EXPECT_NEAR(dynamic.losses[i], fixed.losses[i], 2e-4) << i;
  }
}

TEST_P(DynamicTest, AnMlpTrainsOnAShortLastBatch) {
  const auto train = [](CompileOptions options) {
    nn::MLP model({.vocab_size = 64, .block_size = 8, .n_embd = 8, .n_hidden = 32});
    optim::SGD sgd(model.parameters(), {.learning_rate = optim::Schedule::constant(0.1)});
    Session session({.seed = 5, .options = options});
    Compiled step = session.compile([&](const Tensor& x, const Tensor& y) {
      const Tensor loss = model.loss(x, y);
      sgd.step(loss.backward());
      return loss;
    });
    std::vector<double> losses;
    for (const int64_t batch : {32, 32, 5, 32, 1}) {
      const ir::Literal next = tokens(batch, 1, 11);
      losses.push_back(
          step(tokens(batch, 8, 7), ir::Literal::from({ir::DType::kI64, {batch}},
                                                      [&](int64_t i) { return next.get(i); }))
              .loss());
    }
    losses.push_back(step.num_signatures());
    return losses;
  };
  std::vector<double> dynamic = train(with({{"x", {kBatch}}, {"y", {kBatch}}}));
  std::vector<double> fixed = train({.backend = GetParam()});
  EXPECT_EQ(dynamic.back(), 1);
  EXPECT_EQ(fixed.back(), 3);
  for (size_t i = 0; i + 1 < fixed.size(); ++i) EXPECT_NEAR(dynamic[i], fixed[i], 1e-4) << i;
}

TEST_P(DynamicTest, SizesOutsideTheRangeOrUnequalMissAGuard) {
  Compiled step = compile([](const Tensor& x, const Tensor& y) { return sum(x * y); },
                          with({{"x", {{"batch", 2, 16, 2}}}, {"y", {{"batch", 2, 16, 2}}}}));
  EXPECT_NEAR(step(rows(4, 3), rows(4, 3)).loss(), step(rows(4, 3), rows(4, 3)).loss(), 0);
  step(rows(16, 3), rows(16, 3));
  EXPECT_EQ(step.num_signatures(), 1);
  step(rows(5, 3), rows(5, 3));
  EXPECT_EQ(step.num_signatures(), 2);
  ASSERT_FALSE(step.guard_misses().empty());
  EXPECT_EQ(step.guard_misses()[0].expected, "batch 2..16, a multiple of 2");
  EXPECT_EQ(step.guard_misses()[0].got, "5");
  step(rows(18, 3), rows(18, 3));
  EXPECT_EQ(step.guard_misses()[0].got, "18");
  EXPECT_EQ(step.guard_misses()[0].fix, "declare a wider range, or cut the input");
}

TEST_P(DynamicTest, CodeThatSpecialisesASizeIsNamedWithItsLine) {
  Compiled step = compile(
      [](const Tensor& x) {
        Tensor y = x * 2.0;
        if (x.dim(0) > 20) y = y + 1.0;
        return sum(y);
      },
      with({{"x", {kBatch}}}));
  const int line = __LINE__ - 4;
  testing::internal::CaptureStderr();
  EXPECT_NEAR(step(rows(4, 3)).loss(), 2 * sum_of(rows(4, 3)), 1e-5);
  EXPECT_NEAR(step(rows(24, 3)).loss(), 2 * sum_of(rows(24, 3)) + 72, 1e-4);
  const std::string warning = testing::internal::GetCapturedStderr();
  ASSERT_FALSE(step.specializations().empty());
  EXPECT_THAT(step.specializations()[0], HasSubstr("dim 'batch' is specialised: "));
  EXPECT_THAT(step.specializations()[0], HasSubstr(fmt::format("dynamic_test.cc:{}", line)));
  EXPECT_THAT(warning, HasSubstr("is compiled for each size by itself"));
}

// No instance sees the odd size: the first call with it does.
TEST_P(DynamicTest, ASizeAtWhichTheFunctionIsAnotherOneIsCompiledByItself) {
  Compiled step =
      compile([](const Tensor& x) { return x.dim(0) == 11 ? sum(x * 3.0) : sum(x * 2.0); },
              with({{"x", {kBatch}}}));
  EXPECT_NEAR(step(rows(12, 3)).loss(), 2 * sum_of(rows(12, 3)), 1e-4);
  EXPECT_EQ(step.num_signatures(), 1);
  EXPECT_NEAR(step(rows(11, 3)).loss(), 3 * sum_of(rows(11, 3)), 1e-4);
  EXPECT_NEAR(step(rows(10, 3)).loss(), 2 * sum_of(rows(10, 3)), 1e-4);
  EXPECT_EQ(step.num_signatures(), 2);
  EXPECT_THAT(step.specializations(), ElementsAre(HasSubstr("at batch = 11: ")));
}

TEST_P(DynamicTest, ASizeThatMustDivideSaysSo) {
  Compiled step = compile(
      [](const Tensor& x) {
        return sum(x.reshape({-1, 4, 3}));
      },
      with({{"x", {kBatch}}}));
  testing::internal::CaptureStderr();
  step(rows(8, 3));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("at batch = 31: [reshape] f32[31,3]"));
  Compiled divided = compile(
      [](const Tensor& x) {
        return sum(x.reshape({-1, 4, 3}));
      },
      with({{"x", {{"batch", 4, 32, 4}}}}));
  divided(rows(8, 3));
  divided(rows(12, 3));
  EXPECT_EQ(divided.num_signatures(), 1);
}

TEST_P(DynamicTest, DynamicMakesASizeThatChangesDynamic) {
  Compiled step =
      compile([](const Tensor& x) { return sum(x * x); }, {.backend = GetParam(), .dynamic = true});
  for (const int64_t size : {16, 12, 3, 9, 16}) step(rows(size, 3));
  EXPECT_EQ(step.num_signatures(), 2);
  EXPECT_EQ(step.guard_misses()[0].guard, "input 'input0' dim 0");
}

INSTANTIATE_TEST_SUITE_P(Backends, DynamicTest, testing::Values("interpret", "cpu"),
                         [](const auto& each) { return each.param; });

TEST(DynamicOptionsTest, WrongDimsAreRefused) {
  const auto call = [](DynamicShapes shapes) {
    return message_of([&] {
      compile([](const Tensor& x) { return sum(x); },
              {.input_names = {"x"}, .dynamic_shapes = std::move(shapes)})(rows(4, 3));
    });
  };
  EXPECT_THAT(call({{"z", {kBatch}}}),
              HasSubstr("dynamic_shapes of an unknown input 'z': the function takes x"));
  EXPECT_THAT(call({{"x", {{"batch", 8, 4}}}}), HasSubstr("Dim 'batch' of 8..4"));
  EXPECT_THAT(call({{"x", {kBatch, kBatch, kBatch}}}), HasSubstr("3 Dims for f32[4,3]"));
  EXPECT_THAT(message_of([] {
                compile([](const Tensor& x) { return sum(x); },
                        {.backend = "null", .dynamic = true});
              }),
              HasSubstr("with backend null: use backend cpu or interpret"));
  EXPECT_THAT(message_of([] {
                compile([](const Tensor& x) { return sum(x); },
                        {.memory_budget = "0.7", .dynamic = true});
              }),
              HasSubstr("memory_budget='0.7' of a step with dynamic sizes"));
}

// A launch gives streams of random numbers, in which kernels of equal layers differ, and sizes.
// 7.0390625e20 stands for the first real that depends on the sizes while a kernel's text is made.
TEST(DynamicKernelTest, AConstantThatStandsForOthersIsRefused) {
  Compiled step =
      compile([](const Tensor& x) { return sum(x * 7.0390625e20) + mean(x); },
              {.backend = "cpu", .input_names = {"x"}, .dynamic_shapes = {{"x", {kBatch}}}});
  testing::internal::CaptureStderr();
  const double expected = 7.0390625e20 * sum_of(rows(4, 3));
  EXPECT_NEAR(step(rows(4, 3)).loss() / expected, 1, 1e-4);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("stands for others here"));
}

TEST(DynamicDropoutTest, KernelsTakeStreamsBesideSizes) {
  const auto function = [](const Tensor& x) {
    Tensor y = x;
    for (int layer = 0; layer < 3; ++layer) {
      y = trace::dropout(y * 2.0 + 1.0, 0.5);
      y = y - sum(y, {1}, true);
    }
    return y;
  };
  Compiled dynamic = compile(function, {.input_names = {"x"}, .dynamic_shapes = {{"x", {kBatch}}}});
  Compiled fixed = compile(function, {.backend = "interpret", .recompile_limit = 64});
  for (const int64_t size : {32, 3, 17, 1}) {
    const ir::Literal found = dynamic(rows(size, 8)).values[0];
    const ir::Literal expected = fixed(rows(size, 8)).values[0];
    for (int64_t i = 0; i < found.num_elements(); ++i) {
      ASSERT_NEAR(found.get(i), expected.get(i), 1e-3) << size << " " << i;
    }
  }
  EXPECT_EQ(dynamic.num_signatures(), 1);
  EXPECT_THAT(dynamic.specializations(), IsEmpty());
}

}  // namespace
}  // namespace monograph::session
