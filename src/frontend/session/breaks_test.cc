#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/message_of.h"
#include "frontend/session/guards.h"
#include "frontend/session/monograph.h"
#include "frontend/session/segments.h"
#include "frontend/trace/host_read.h"
#include "frontend/trace/trace.h"

namespace monograph::session {
namespace {

using testing::HasSubstr;

ir::Literal row(std::vector<float> numbers) {
  const int64_t count = static_cast<int64_t>(numbers.size());
  return ir::Literal::from_f32({count}, numbers);
}

class BreaksTest : public testing::TestWithParam<std::string> {
 protected:
  CompileOptions options() const { return {.backend = GetParam()}; }
};

TEST_P(BreaksTest, ABranchOnAValueTakesThePathThatWasRecorded) {
  int num_traces = 0;
  Compiled step = compile(
      [&](const Tensor& x) {
        ++num_traces;
        const Tensor y = x * 2.0;
        return sum(y).is_true() ? sum(y * 10.0) : sum(y + 1.0);
      },
      options());
  EXPECT_EQ(step(row({1, 2})).loss(), 60);
  EXPECT_EQ(step(row({1, -1})).loss(), 2);
  EXPECT_EQ(num_traces, 2);
  EXPECT_EQ(step(row({3, 3})).loss(), 120);
  EXPECT_EQ(step(row({5, -5})).loss(), 2);
  EXPECT_EQ(num_traces, 2);
  ASSERT_EQ(step.breaks().size(), 1u);
  EXPECT_THAT(step.breaks()[0].place.file, HasSubstr("breaks_test.cc"));
  EXPECT_THAT(step.breaks()[0].reason(), HasSubstr("is_true() branches on the value of f32[]"));
}

TEST_P(BreaksTest, GradientsAndUpdatesCrossABreak) {
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 2, 1};
  };
  const auto train = [&](bool breaks) {
    Net net;
    optim::SGD sgd(net.parameters(), {.learning_rate = optim::Schedule::constant(0.01)});
    Session session({.seed = 3, .options = options()});
    Compiled step = session.compile([&](const Tensor& x) {
      const Tensor hidden = net.fc(x);
      if (breaks && amax(hidden).item() > 1e9) return sum(hidden);
      const Tensor loss = mse_loss(hidden, hidden * 0.0 + 1.0);
      sgd.step(loss.backward());
      return loss;
    });
    const ir::Literal rows = ir::Literal::from_f32({2, 2}, {1, 2, 3, 4});
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(step(rows).loss());
    return losses;
  };
  const std::vector<double> whole = train(false);
  const std::vector<double> cut = train(true);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(cut[i], whole[i], 1e-6);
  EXPECT_LT(whole[2], whole[0]);
}

TEST_P(BreaksTest, HostFunctionsRunEachStepAndEnterTheGraphAsInputs) {
  int num_calls = 0;
  Compiled step = compile(
      [&](const Tensor& x) {
        const std::vector<Tensor> seen = trace::host_call(
            [&](std::span<const ir::Literal> in) {
              ++num_calls;
              return std::vector<ir::Literal>{row({static_cast<float>(in[0].get(0)) + 100})};
            },
            {x * 2.0}, {{ir::DType::kF32, {1}}});
        return sum(x) + sum(seen[0]);
      },
      options());
  EXPECT_EQ(step(row({1, 2})).loss(), 3 + 102);
  EXPECT_EQ(num_calls, 1);
  EXPECT_EQ(step(row({2, 2})).loss(), 4 + 104);
  EXPECT_EQ(num_calls, 2);
  EXPECT_EQ(step.num_signatures(), 1);
}

TEST_P(BreaksTest, WhatWasReadIsNotDoneAgainOnAnotherPath) {
  int num_calls = 0;
  Compiled step = compile(
      [&](const Tensor& x) {
        trace::host_call(
            [&](std::span<const ir::Literal>) {
              ++num_calls;
              return std::vector<ir::Literal>();
            },
            {x}, {});
        return sum(x).is_true() ? sum(x) : sum(x) - 1.0;
      },
      options());
  EXPECT_EQ(step(row({1, 2})).loss(), 3);
  EXPECT_EQ(num_calls, 1);
  EXPECT_EQ(step(row({1, -1})).loss(), -1);  // traced anew in the middle of a step
  EXPECT_EQ(num_calls, 2);
  EXPECT_EQ(step(row({1, 1})).loss(), 2);  // from one path to the other
  EXPECT_EQ(num_calls, 3);
}

TEST_P(BreaksTest, PastTheLimitCallsRunOpByOpAndTheCauseIsNamed) {
  CompileOptions limited = options();
  limited.recompile_limit = 2;
  limited.name = "scaled";
  Compiled step = compile([](const Tensor& x) { return sum(x) * amax(x).item(); }, limited);
  testing::internal::CaptureStderr();
  for (int i = 1; i <= 5; ++i) EXPECT_EQ(step(row({1, float(i)})).loss(), (1 + i) * i);
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_EQ(step.num_signatures(), 2);
  EXPECT_EQ(step.num_eager_calls(), 3);
  EXPECT_THAT(warning, HasSubstr("'scaled' was compiled 2 times, its recompile_limit"));
  EXPECT_THAT(warning,
              HasSubstr("item() reads the value of f32[] on the host and uses it as a number at "));
  EXPECT_THAT(warning, HasSubstr(": expected 1, got 3 (used at "));
  EXPECT_THAT(warning, HasSubstr("breaks_test.cc"));
  EXPECT_THAT(warning, HasSubstr("a scalar tensor broadcasts wherever a number may stand"));
  EXPECT_EQ(warning.find("warning:", 5), std::string::npos);  // once
}

// The number is another in each step, but only its side of the limit decides what is computed.
TEST_P(BreaksTest, ANumberThatOnlyDecidesABranchIsNoNewPath) {
  CompileOptions limited = options();
  limited.recompile_limit = 2;
  Compiled step =
      compile([](const Tensor& x) { return amax(x).item() > 10 ? sum(x) * 2.0 : sum(x); }, limited);
  for (const float top : {1, 2, 20, 3, 30, 4, 40}) {
    EXPECT_EQ(step(row({top, 1})).loss(), (top + 1) * (top > 10 ? 2 : 1));
  }
  EXPECT_EQ(step.num_signatures(), 2);
  EXPECT_EQ(step.num_eager_calls(), 0);
  ASSERT_EQ(step.guard_misses().size(), 1u);
  const GuardMiss& miss = step.guard_misses()[0];
  EXPECT_THAT(miss.guard, HasSubstr("item() reads the value of f32[] on the host and branches on"));
  EXPECT_THAT(miss.fix, HasSubstr("use where(condition, a, b) or cond("));
}

// What the host does with the elements may use what was read before: this step's number.
TEST_P(BreaksTest, OnAKnownPathHostFunctionsSeeTheNewNumbers) {
  std::vector<double> seen;
  Compiled step = compile(
      [&](const Tensor& x) {
        const double top = amax(x).item();
        trace::host_call(
            [&seen, top](std::span<const ir::Literal>) {
              seen.push_back(top);
              return std::vector<ir::Literal>();
            },
            {x}, {});
        return sum(x);
      },
      options());
  for (const float top : {1, 2, 2, 5}) EXPECT_EQ(step(row({top, 1})).loss(), top + 1);
  EXPECT_THAT(seen, testing::ElementsAre(1, 2, 2, 5));
  EXPECT_EQ(step.num_signatures(), 1);
}

INSTANTIATE_TEST_SUITE_P(Backends, BreaksTest, testing::Values("interpret", "cpu"),
                         [](const auto& backend) { return backend.param; });

// softplus on the host; the registry has no such op.
trace::HostOps host_softplus() {
  trace::HostOp op;
  op.types = [](std::span<const ir::TensorType> types) {
    return std::vector<ir::TensorType>(types.begin(), types.end());
  };
  op.function = [](std::span<const ir::Literal> in) {
    return std::vector<ir::Literal>{ir::Literal::from(
        in[0].type(), [&](int64_t i) { return std::log1p(std::exp(in[0].get(i))); })};
  };
  return {{"softplus", op}};
}

TEST_P(BreaksTest, AnOpThatIsNotRegisteredRunsOnTheHost) {
  CompileOptions with = options();
  with.host_ops = host_softplus();
  const auto function = [](const Tensor& x) {
    return sum(trace::emit("softplus", {x * 2.0})) + amax(x);
  };
  const int line = __LINE__ - 2;
  Compiled step = compile(function, with);
  for (const float at : {0.f, 1.f}) {
    EXPECT_NEAR(step(row({at, 1})).loss(),
                std::log1p(std::exp(2 * at)) + std::log1p(std::exp(2)) + 1, 1e-5);
  }
  EXPECT_EQ(step.num_signatures(), 1);
  ASSERT_EQ(step.breaks().size(), 1u);
  EXPECT_EQ(step.breaks()[0].place.line, line);
  EXPECT_EQ(step.breaks()[0].reason(), "op 'softplus' is not registered and runs on the host");
  with.fullgraph = true;
  EXPECT_THAT(message_of([&] {
                compile(function, with)(row({1, 2}));
              }),
              AllOf(HasSubstr("graph break: op 'softplus' is not registered"),
                    HasSubstr(fmt::format("breaks_test.cc:{}", line)),
                    HasSubstr("write it with ops, or call it before or after the step")));
}

TEST(BreaksTest, AnOpThatNobodyKnowsIsAnErrorAtItsLine) {
  const std::string message = message_of([] {
    compile([](const Tensor& x) { return sum(trace::emit("softplus", {x})); })(row({1, 2}));
  });
  EXPECT_THAT(message, HasSubstr("unknown op 'softplus': the nearest is '"));
  EXPECT_THAT(message, HasSubstr("give CompileOptions::host_ops a function for it"));
  EXPECT_THAT(message, HasSubstr("breaks_test.cc:"));
}

TEST(BreaksTest, FullgraphMakesABreakAnErrorAtItsLine) {
  Compiled step = compile([](const Tensor& x) { return x * sum(x).item(); }, {.fullgraph = true});
  const std::string message = message_of([&] { step(row({1, 2})); });
  EXPECT_THAT(message, HasSubstr("graph break: item() reads the value of f32[] on the host"));
  EXPECT_THAT(message, HasSubstr("breaks_test.cc:"));
  EXPECT_THAT(message, HasSubstr("keep it a tensor"));
}

TEST(BreaksTest, TracingWithoutInputsSaysThatItNeedsThem) {
  Compiled step = compile([](const Tensor& x) { return x * sum(x).item(); });
  EXPECT_THAT(message_of([&] {
                step.graph({{ir::DType::kF32, {2}}});
              }),
              HasSubstr("call the function with inputs first"));
}

TEST(BreaksTest, BadReadsAreRefused) {
  EXPECT_THAT(message_of([] {
                compile([](const Tensor& x) { return x * x.item(); })(row({1, 2}));
              }),
              HasSubstr("[item] f32[2] has 2 elements: reduce it to one"));
  const auto wrong = [](const Tensor& x) {
    return trace::host_call(
        [](auto) {
          return std::vector<ir::Literal>{row({1, 2, 3})};
        },
        {x}, {{ir::DType::kF32, {2}}})[0];
  };
  EXPECT_THAT(message_of([&] {
                compile(wrong)(row({1, 2}));
              }),
              HasSubstr("was declared to return f32[2], it returned f32[3]"));
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 2, 1};
  } net;
  const auto attached = [&](const Tensor& x) {
    return trace::host_call([](auto in) { return std::vector<ir::Literal>(in.begin(), in.end()); },
                            {net.fc(x)}, {{ir::DType::kF32, {1, 1}}})[0];
  };
  EXPECT_THAT(message_of([&] {
                compile(attached)(ir::Literal::from_f32({1, 2}, {1, 2}));
              }),
              HasSubstr("no gradient flows through the host: detach() it"));
}

TEST(BreaksTest, AValueMayBeReadAfterTheUpdateOfStates) {
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 2, 1};
  } net;
  optim::SGD sgd(net.parameters(), {.learning_rate = optim::Schedule::constant(0.01)});
  double read = 0;
  Compiled step = compile([&](const Tensor& x) {
    const Tensor loss = sum(net.fc(x) * net.fc(x));
    sgd.step(loss.backward());
    read = loss.item();
    return loss;
  });
  const double loss = step(ir::Literal::from_f32({1, 2}, {1, 2})).loss();
  EXPECT_NEAR(read, loss, 1e-6);
}

TEST(BreaksTest, EventsNameEachBreak) {
  const std::string path = testing::TempDir() + "/break_events.jsonl";
  std::filesystem::remove(path);
  EventLog events(path, parse_event_levels("info"));
  Session session({.events = &events});
  Compiled step = session.compile([](const Tensor& x) {
    trace::print("x", x);
    return sum(x);
  });
  testing::internal::CaptureStdout();
  step(row({1, 2}));
  step(row({3, 4}));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "x: f32[2] 1 2\nx: f32[2] 3 4\n");
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, HasSubstr(R"("event":"graph_break","frame_key":"step#1","file":)"));
  EXPECT_THAT(text, HasSubstr("return the tensor as an output and print it after the step"));
}

}  // namespace
}  // namespace monograph::session
