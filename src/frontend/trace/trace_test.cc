#include "frontend/trace/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/message_of.h"
#include "frontend/trace/functions.h"
#include "frontend/trace/gradients.h"
#include "ir/printer.h"

namespace monograph::trace {
namespace {

using testing::HasSubstr;

const ir::TensorType kMatrix{ir::DType::kF32, {2, 3}};

Parameter parameter(const std::string& name, ir::Shape shape) {
  return {name,
          {ir::DType::kF32, std::move(shape)},
          ir::StateRole::kParameter,
          Initializer::normal(0, 1)};
}

std::vector<std::string> ops_of(const ir::Graph& graph) {
  std::vector<std::string> ops;
  for (const auto& node : graph.nodes()) ops.push_back(node->op());
  return ops;
}

TEST(TraceTest, BuildsGraphInOrderOfCalls) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", kMatrix);
  const Tensor y = 2.0 * x + 1;
  const auto graph = trace->finish({{"loss", sum(y)}});
  EXPECT_EQ(ir::to_text(*graph),
            "graph @step {\n"
            "  %x = input \"x\" : f32[2,3]\n"
            "  %0 = full() {dtype=f32, shape=[], value=2.0} : f32[]\n"
            "  %1 = mul(%0, %x) : f32[2,3]\n"
            "  %2 = full() {dtype=f32, shape=[], value=1.0} : f32[]\n"
            "  %3 = add(%1, %2) : f32[2,3]\n"
            "  %4 = sum(%3) {axes=[0,1], keepdim=false} : f32[]\n"
            "  return loss=%4\n"
            "}\n");
}

TEST(TraceTest, EachNodeKnowsTheLineOfItsCall) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", kMatrix);
  const auto line_of = [](const Tensor& t) { return t.value().node->provenance().line; };
  EXPECT_EQ(line_of(x + x), __LINE__);
  EXPECT_EQ(line_of(-exp(x)), __LINE__);
  EXPECT_EQ(line_of(2.0 / x), __LINE__);
  EXPECT_EQ(line_of(x.reshape({3, -1})), __LINE__);
  EXPECT_EQ(line_of(x.sum()), __LINE__);
  EXPECT_EQ(line_of(cat({x, x}, 0)), __LINE__);
  EXPECT_THAT((x + x).value().node->provenance().file, HasSubstr("trace_test.cc"));
}

TEST(TraceTest, AllNodesOfACompositionKnowTheCaller) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", kMatrix);
  const Tensor y = softmax(gelu(x), -1);
  const int line = __LINE__ - 1;
  const auto graph = trace->finish({{"y", y}});
  for (const auto& node : graph->nodes()) {
    if (node->is("input")) continue;
    EXPECT_EQ(node->provenance().line, line) << node->op();
    EXPECT_THAT(node->provenance().file, HasSubstr("trace_test.cc")) << node->op();
  }
}

TEST(TraceTest, ScopeIsThatOfTheInnermostModule) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", kMatrix);
  const Scope outer(*trace, "h.0");
  {
    const Scope inner(*trace, "h.0.mlp");
    EXPECT_EQ((x + x).value().node->provenance().scope, "h.0.mlp");
  }
  EXPECT_EQ((x + x).value().node->provenance().scope, "h.0");
}

TEST(TraceTest, StateIsRegisteredOnceAndReadsItsUpdate) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", kMatrix);
  const Parameter w = parameter("w", {3});
  const Tensor before = x * w;
  EXPECT_EQ(before.value().node->operand(1), trace->read(w).value());
  trace->update(w, trace->read(w) + 1.0);
  EXPECT_TRUE(trace->read(w).value().node->is("add"));
  const auto graph = trace->finish({{"y", sum(before)}});
  EXPECT_EQ(graph->states().size(), 1u);
  ASSERT_EQ(graph->updates().size(), 1u);
  EXPECT_EQ(graph->updates()[0].state->name(), "w");
}

TEST(TraceTest, TwoStatesOfOneNameAreRefused) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", kMatrix);
  const Parameter a = parameter("w", {3}), b = parameter("w", {3});
  trace->read(a);
  EXPECT_THAT(message_of([&] { trace->read(b); }),
              HasSubstr("two states are named 'w' (f32[3] and f32[3])"));
}

TEST(TraceTest, UpdateOfAnotherTypeIsRefused) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", kMatrix);
  EXPECT_THAT(message_of([&] { trace->update(parameter("w", {3}), x); }),
              HasSubstr("update of state 'w': it is f32[3], the new value is f32[2,3]"));
}

TEST(TraceTest, AnErrorNamesPlaceAndScope) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", kMatrix);
  const Scope scope(*trace, "fc1");
  const std::string message = message_of([&] { matmul(x, x); });
  EXPECT_THAT(message, HasSubstr("[matmul]"));
  EXPECT_THAT(message, HasSubstr("trace_test.cc:" + std::to_string(__LINE__ - 2) + " in fc1"));
}

TEST(TraceTest, TensorsCannotOutliveTheirTrace) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", kMatrix);
  const auto graph = trace->finish({{"x", x}});
  EXPECT_THAT(message_of([&] { exp(x); }), HasSubstr("whose trace has ended"));
  EXPECT_THAT(message_of([&] { x.type(); }), HasSubstr("whose trace has ended"));
  EXPECT_THAT(message_of([&] { exp(Tensor()); }), HasSubstr("empty tensor"));
}

TEST(TraceTest, OperandsOfTwoTracesAreRefused) {
  const auto a = Trace::create(), b = Trace::create();
  const Tensor x = a->input("x", kMatrix), y = b->input("y", kMatrix);
  EXPECT_THAT(message_of([&] { x + y; }), HasSubstr("[add] operands of two traces"));
}

TEST(TraceTest, ParametersAloneReachNoTrace) {
  const Parameter w = parameter("w", {3});
  EXPECT_THAT(message_of([&] { w* w; }), HasSubstr("none of the operands"));
}

TEST(TraceTest, DrawsDifferByScopeAndCount) {
  const auto trace = Trace::create();
  const auto stream_of = [&] {
    return trace->random_uniform({4}).value().node->attribute<int64_t>("stream");
  };
  const int64_t first = stream_of(), second = stream_of();
  const Scope scope(*trace, "h.0");
  const int64_t third = stream_of();
  EXPECT_NE(first, second);
  EXPECT_NE(first, third);
  const auto graph = trace->finish({{"step", trace->step()}});
  ASSERT_EQ(graph->updates().size(), 1u);  // the step counts on
  EXPECT_EQ(graph->updates()[0].state->name(), "step");
  EXPECT_TRUE(graph->updates()[0].next.node->is("add"));
}

TEST(TraceTest, NodesWithoutEffectAreDropped) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", kMatrix);
  exp(x);
  const auto graph = trace->finish({{"x", tanh(x)}});
  EXPECT_THAT(ops_of(*graph), testing::ElementsAre("input", "tanh"));
}

TEST(TensorTest, ReshapeFillsTheOpenDim) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", {ir::DType::kF32, {2, 3, 4}});
  EXPECT_EQ(x.reshape({-1, 4}).shape(), (ir::Shape{6, 4}));
  EXPECT_EQ(x.flatten(1).shape(), (ir::Shape{2, 12}));
  EXPECT_EQ(x.transpose(0, -1).shape(), (ir::Shape{4, 3, 2}));
  EXPECT_EQ(x.unsqueeze(-1).shape(), (ir::Shape{2, 3, 4, 1}));
  EXPECT_EQ(x.unsqueeze(-1).squeeze(3).shape(), x.shape());
  EXPECT_EQ(x.slice(1, -2, 3).shape(), (ir::Shape{2, 2, 4}));
  EXPECT_THAT(message_of([&] { x.reshape({-1, 5}); }), HasSubstr("do not divide by 5"));
  EXPECT_THAT(message_of([&] { x.squeeze(1); }), HasSubstr("is not 1"));
  EXPECT_THAT(message_of([&] { x.permute({0, 1, 5}); }), HasSubstr("use -3..2"));
}

TEST(TensorTest, SplitLeavesTheRestInTheLastPart) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", {ir::DType::kF32, {2, 5}});
  const std::vector<Tensor> parts = x.split(2, -1);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[2].shape(), (ir::Shape{2, 1}));
  EXPECT_EQ(cat(parts, 1).shape(), x.shape());
  EXPECT_EQ(stack(parts[0].split(1, 1), 0).shape(), (ir::Shape{2, 2, 1}));
}

TEST(FunctionsTest, NumbersTakeTheDtypeOfTheTensor) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", {ir::DType::kI64, {3}});
  EXPECT_EQ((x + 1).dtype(), ir::DType::kI64);
  EXPECT_EQ((x + 0.5).dtype(), ir::DType::kF32);
}

TEST(FunctionsTest, BadLossesAndRatesAreRefused) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", kMatrix);
  const Tensor ids = trace->input("ids", {ir::DType::kI64, {3}});
  EXPECT_THAT(message_of([&] { cross_entropy(x, ids); }),
              HasSubstr("logits f32[2,3] and targets i64[3]"));
  EXPECT_THAT(message_of([&] { cross_entropy(x, x); }), HasSubstr("integer targets"));
  EXPECT_THAT(message_of([&] { dropout(x, 1.0); }), HasSubstr("[dropout] rate 1"));
}

TEST(GradientsTest, UnusedAndFrozenParametersAreNamed) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", kMatrix);
  const Parameter used = parameter("used", {3}), unused = parameter("unused", {3});
  Parameter frozen = parameter("frozen", {3});
  frozen.freeze();
  const Tensor detached = detach(x * unused);
  const Tensor loss = mean(x * used * frozen + detached);
  const Gradients gradients = loss.backward();
  EXPECT_EQ(gradients[used].type(), used.type());
  EXPECT_THAT(gradients.unused(), testing::ElementsAre("unused"));
  EXPECT_THAT(message_of([&] { gradients[unused]; }), HasSubstr("the loss does not depend on it"));
  EXPECT_THAT(message_of([&] { gradients[frozen]; }), HasSubstr("it is frozen"));
  EXPECT_THAT(message_of([&] { gradients[parameter("other", {3})]; }),
              HasSubstr("this step does not read it"));
}

TEST(GradientsTest, BackwardNodesHaveTheirPhaseAndPlace) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", kMatrix);
  const Parameter w = parameter("w", {3});
  const Tensor y = tanh(x * w);
  const int line = __LINE__ - 1;
  const Tensor gradient = sum(y).backward()[w];
  EXPECT_EQ(gradient.value().node->phase(), ir::Phase::kBackward);
  EXPECT_EQ(gradient.value().node->provenance().line, line);
}

TEST(GradientsTest, OfAnyTensor) {
  const auto trace = Trace::create();
  const Tensor x = trace->input("x", kMatrix), other = trace->input("y", kMatrix);
  const Tensor hidden = x * x;
  const Tensor loss = sum(hidden * 3.0);
  const std::vector<Tensor> gradients = gradients_of(loss, {x, hidden});
  EXPECT_EQ(gradients[0].type(), x.type());
  EXPECT_EQ(gradients[1].type(), hidden.type());
  EXPECT_THAT(message_of([&] { gradients_of(loss, {other}); }), HasSubstr("does not depend"));
  EXPECT_THAT(message_of([&] { x.backward(); }), HasSubstr("in backward() at"));
}

TEST(StateTest, BeginningDependsOnSeedAndNameOnly) {
  const ir::TensorType type{ir::DType::kF32, {10000}};
  const Initializer normal = Initializer::normal(1, 0.5);
  const ir::Literal a = normal.make(type, "a", 7);
  EXPECT_EQ(a, normal.make(type, "a", 7));
  EXPECT_NE(a, normal.make(type, "b", 7));
  EXPECT_NE(a, normal.make(type, "a", 8));
  double total = 0, squares = 0;
  for (float each : a.as<float>()) {
    total += each;
    squares += (each - 1) * (each - 1);
  }
  EXPECT_NEAR(total / 10000, 1, 0.02);
  EXPECT_NEAR(std::sqrt(squares / 10000), 0.5, 0.02);
  const ir::Literal uniform = Initializer::uniform(-2, 3).make(type, "a", 7);
  for (float each : uniform.as<float>()) {
    ASSERT_TRUE(each >= -2 && each <= 3);
  }
}

}  // namespace
}  // namespace monograph::trace
