#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/message_of.h"
#include "frontend/nn/gpt.h"
#include "frontend/nn/llama.h"
#include "frontend/nn/mlp.h"
#include "frontend/nn/optim/optimizer.h"
#include "frontend/nn/resnet.h"
#include "frontend/trace/gradients.h"
#include "runtime/interpreter.h"

namespace monograph::nn {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names_of(const std::vector<State>& states) {
  std::vector<std::string> names;
  for (const State& state : states) names.push_back(state.name());
  return names;
}

struct Net : Module {
  Linear fc1{*this, "fc1", 3, 4};
  Linear fc2{*this, "fc2", 4, 1};
  Tensor operator()(const Tensor& x) const { return fc2(relu(fc1(x))); }
};

// Runs a traced step on states that begin as declared, but for those given.
std::vector<ir::Literal> run(trace::Trace& trace, const trace::Outputs& outputs,
                             const runtime::InputMap& inputs, runtime::StateMap& states) {
  for (const auto& known : trace.states()) {
    states.try_emplace(known.state.name(),
                       known.state.initializer().make(known.state.type(), known.state.name(), 1));
  }
  return runtime::interpret(*trace.finish(outputs), inputs, states);
}

TEST(ModuleTest, PathsNameTheParameters) {
  Net net;
  EXPECT_THAT(names_of(net.parameters()),
              ElementsAre("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"));
  EXPECT_EQ(net.num_parameters(), 3 * 4 + 4 + 4 + 1);
  EXPECT_THAT(message_of([&] { net.parameter("fc3.weight"); }),
              HasSubstr("no parameter 'fc3.weight': the model has fc1.weight, fc1.bias"));
  EXPECT_THAT(message_of([&] { Linear(net, "fc1", 1, 1); }), HasSubstr("two parts named 'fc1'"));
}

TEST(ModuleTest, NodesOfALayerHaveItsScopeAndTheCallersLine) {
  Net net;
  const auto trace = trace::Trace::create();
  const Tensor x = trace->input("x", {ir::DType::kF32, {2, 3}});
  const Tensor y = net.fc1(x);
  const ir::Provenance& place = y.value().node->provenance();
  EXPECT_EQ(place.line, __LINE__ - 2);
  EXPECT_THAT(place.file, HasSubstr("nn_test.cc"));
  EXPECT_EQ(place.scope, "fc1");
}

TEST(GPTTest, HasHuggingFaceNamesAndShapes) {
  const GPT model({.vocab_size = 50, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 4});
  const std::vector<std::string> names = names_of(model.parameters());
  EXPECT_EQ(names.size(), 2 + 2 * 12 + 2u);
  for (const char* name : {"wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.1.attn.c_attn.bias",
                           "h.1.mlp.c_proj.weight", "ln_f.bias"}) {
    EXPECT_THAT(names, Contains(name));
  }
  EXPECT_EQ(model.parameter("h.0.attn.c_attn.weight").shape(), (ir::Shape{4, 12}));
  const double expected = 0.02 / std::sqrt(4.0);  // smaller for residual projections
  EXPECT_DOUBLE_EQ(model.parameter("h.0.mlp.c_proj.weight").initializer().b, expected);
}

TEST(GPTTest, BadSizesAreRefused) {
  EXPECT_THAT(message_of([] { GPT({.n_head = 3}); }), HasSubstr("n_head must divide n_embd"));
  EXPECT_THAT(message_of([] { GPT({.n_layer = 0}); }), HasSubstr("each must be 1 or more"));
  const GPT model({.block_size = 8});
  const auto trace = trace::Trace::create();
  const Tensor x = trace->input("x", {ir::DType::kI64, {1, 9}});
  EXPECT_THAT(message_of([&] { model(x); }), HasSubstr("length up to 8"));
  const Tensor floating = trace->input("f", {ir::DType::kF32, {1, 8}});
  EXPECT_THAT(message_of([&] { model(floating); }), HasSubstr("[embedding]"));
}

TEST(GPTTest, DropoutOnlyInTraining) {
  GPT model({.block_size = 8, .n_layer = 1, .n_embd = 16, .dropout = 0.1});
  const auto count_draws = [&] {
    const auto trace = trace::Trace::create();
    const Tensor logits = model(trace->input("x", {ir::DType::kI64, {1, 8}}));
    const auto graph = trace->finish({{"logits", logits}});
    return std::count_if(graph->nodes().begin(), graph->nodes().end(),
                         [](const auto& node) { return node->is("philox_uniform"); });
  };
  EXPECT_EQ(count_draws(), 1 + 1 + 2);  // embedding, attention, two residual branches
  model.eval();
  EXPECT_EQ(count_draws(), 0);
  model.train();
  EXPECT_EQ(count_draws(), 4);
}

TEST(LlamaTest, HasHuggingFaceNamesAndShapes) {
  const LlamaConfig config = {.vocab_size = 50,
                              .block_size = 8,
                              .n_layer = 2,
                              .n_head = 4,
                              .n_kv_head = 2,
                              .n_embd = 16,
                              .n_hidden = 24};
  const Llama tied(config);
  const std::vector<std::string> names = names_of(tied.parameters());
  EXPECT_EQ(names.size(), 1 + 2 * 9 + 1u);
  for (const char* name :
       {"model.embed_tokens.weight", "model.layers.1.self_attn.o_proj.weight",
        "model.layers.0.input_layernorm.weight", "model.layers.0.post_attention_layernorm.weight",
        "model.layers.0.mlp.gate_proj.weight", "model.norm.weight"}) {
    EXPECT_THAT(names, Contains(name));
  }
  EXPECT_EQ(tied.parameter("model.layers.0.self_attn.k_proj.weight").shape(), (ir::Shape{16, 8}));
  LlamaConfig untied_config = config;
  untied_config.is_tied = false;
  const Llama untied(untied_config);
  EXPECT_EQ(untied.num_parameters() - tied.num_parameters(), 16 * 50);
  EXPECT_EQ(untied.parameter("lm_head.weight").shape(), (ir::Shape{16, 50}));
}

TEST(LlamaTest, BadSizesAreRefused) {
  EXPECT_THAT(message_of([] { Llama({.n_layer = 0}); }), HasSubstr("each must be 1 or more"));
  EXPECT_THAT(message_of([] { Llama({.n_head = 4, .n_kv_head = 3}); }),
              HasSubstr("n_kv_head must divide n_head"));
  EXPECT_THAT(message_of([] { Llama({.n_head = 4, .n_embd = 36}); }),
              HasSubstr("use an n_embd that 2 * n_head divides"));
  EXPECT_THAT(message_of([] { Llama({.rope_theta = 0}); }), HasSubstr("use above 1"));
  const Llama model({.block_size = 8});
  const auto trace = trace::Trace::create();
  const Tensor x = trace->input("x", {ir::DType::kI64, {1, 9}});
  EXPECT_THAT(message_of([&] { model(x); }), HasSubstr("length up to 8"));
}

TEST(ResNetTest, BadSizesAreRefused) {
  EXPECT_THAT(message_of([] { ResNet({.blocks = {}}); }), HasSubstr("there must be a stage"));
  EXPECT_THAT(message_of([] { ResNet({.blocks = {1, 0}}); }), HasSubstr("blocks [1,0]"));
  const ResNet model({.blocks = {1}, .width = 4});
  const auto trace = trace::Trace::create();
  const Tensor planes = trace->input("x", {ir::DType::kF32, {1, 3, 32, 32}});
  EXPECT_THAT(message_of([&] { model(planes); }), HasSubstr("use [batch, height, width, 3]"));
}

TEST(RotaryTest, TurnsElementsHalfAWidthApart) {
  struct Model : Module {
    RotaryEmbedding rotary{*this, "rotary", 5, 4, 100};
  } model;
  const auto trace = trace::Trace::create();
  const ir::TensorType type = {ir::DType::kF32, {1, 3, 1, 4}};
  const Tensor y = model.rotary(trace->input("x", type));
  runtime::StateMap states;
  const ir::Literal given = ir::Literal::from(type, [](int64_t i) { return i % 4 == 0; });
  const ir::Literal turned = run(*trace, {{"y", y}}, {{"x", given}}, states)[0];
  for (int64_t position = 0; position < 3; ++position) {  // the first pair turns by one a position
    const auto angle = static_cast<double>(position);
    EXPECT_NEAR(turned.get(4 * position), std::cos(angle), 1e-6);
    EXPECT_EQ(turned.get(4 * position + 1), 0);
    EXPECT_NEAR(turned.get(4 * position + 2), std::sin(angle), 1e-6);
  }
}

TEST(DropoutTest, KeepsTheMeanAndChangesEachStep) {
  const auto trace = trace::Trace::create();
  const Tensor x = trace->input("x", {ir::DType::kF32, {10000}});
  const trace::Outputs outputs{{"y", dropout(x, 0.25)}};
  const runtime::InputMap inputs{
      {"x", ir::Literal::from({ir::DType::kF32, {10000}}, [](int64_t) { return 1.0; })}};
  runtime::StateMap states;
  for (const auto& known : trace->states()) {
    states[known.state.name()] = ir::Literal(known.state.type());
  }
  const auto graph = trace->finish(outputs);
  const ir::Literal first = runtime::interpret(*graph, inputs, states)[0];
  const ir::Literal second = runtime::interpret(*graph, inputs, states)[0];
  EXPECT_NE(first, second);
  int64_t num_zeros = 0;
  for (float each : first.as<float>()) {
    EXPECT_TRUE(each == 0 || std::abs(each - 1 / 0.75f) < 1e-6);
    num_zeros += each == 0;
  }
  EXPECT_NEAR(static_cast<double>(num_zeros) / 10000, 0.25, 0.02);
  states["step"] = ir::Literal::from_i64({}, {0});
  EXPECT_EQ(runtime::interpret(*graph, inputs, states)[0], first);  // a function of the step
}

TEST(BatchNormTest, MovesItsBuffersInTrainingAndUsesThemInEvaluation) {
  struct Model : Module {
    BatchNorm norm{*this, "norm", 2};
  } model;
  const ir::Literal rows = ir::Literal::from_f32({4, 2}, {1, 10, 2, 10, 3, 30, 4, 30});
  runtime::StateMap states;
  const auto step = [&] {
    const auto trace = trace::Trace::create();
    const Tensor y = model.norm(trace->input("x", rows.type()));
    return run(*trace, {{"y", y}}, {{"x", rows}}, states)[0];
  };
  const ir::Literal trained = step();
  EXPECT_NEAR(trained.get(0), -1.5 / std::sqrt(1.25 + 1e-5), 1e-5);
  EXPECT_NEAR(states["norm.running_mean"].get(1), 0.1 * 20, 1e-5);
  EXPECT_NEAR(states["norm.running_var"].get(0), 0.9 + 0.1 * 1.25 * 4 / 3, 1e-5);
  model.eval();
  const runtime::StateMap before = states;
  const ir::Literal evaluated = step();
  EXPECT_EQ(states, before);
  EXPECT_NEAR(evaluated.get(0), (1 - 0.25) / std::sqrt(states["norm.running_var"].get(0) + 1e-5),
              1e-5);
  EXPECT_THAT(names_of(model.buffers()), ElementsAre("norm.running_mean", "norm.running_var"));
}

TEST(BatchNormTest, OfImagesTakesEachChannelsMeanOverAllPixels) {
  struct Model : Module {
    BatchNorm norm{*this, "norm", 2};
  } model;
  const ir::TensorType type = {ir::DType::kF32, {2, 2, 1, 2}};
  const ir::Literal images = ir::Literal::from_f32(type.shape, {1, 10, 2, 10, 3, 30, 4, 30});
  runtime::StateMap states;
  const auto trace = trace::Trace::create();
  const Tensor y = model.norm(trace->input("x", type));
  const ir::Literal trained = run(*trace, {{"y", y}}, {{"x", images}}, states)[0];
  EXPECT_NEAR(trained.get(0), -1.5 / std::sqrt(1.25 + 1e-5), 1e-5);
  EXPECT_NEAR(states["norm.running_mean"].get(1), 0.1 * 20, 1e-5);
  EXPECT_NEAR(states["norm.running_var"].get(0), 0.9 + 0.1 * 1.25 * 4 / 3, 1e-5);
}

// The graph's schedule against the host's, and a few values by hand.
TEST(ScheduleTest, GraphAgreesWithHost) {
  using optim::Schedule;
  for (const Schedule& schedule :
       {Schedule::constant(0.5), Schedule::constant(0.5, 4), Schedule::linear(1, 0.1, 3, 10),
        Schedule::cosine(1, 0.1, 3, 10), Schedule::cosine(1, 0, 0, 5)}) {
    const auto trace = trace::Trace::create();
    const Tensor step = trace->input("step", {ir::DType::kF64, {}});
    const auto graph = trace->finish({{"rate", schedule.rate(step)}});
    for (int64_t i = 0; i < 15; ++i) {
      runtime::StateMap states;
      const ir::Literal rate = runtime::interpret(
          *graph, {{"step", ir::Literal::scalar(ir::DType::kF64, static_cast<double>(i))}},
          states)[0];
      EXPECT_NEAR(rate.get(0), schedule.rate(i), 1e-12);
    }
  }
  const Schedule linear = Schedule::linear(1, 0.1, 3, 10);
  EXPECT_DOUBLE_EQ(linear.rate(0), 1.0 / 3);
  EXPECT_DOUBLE_EQ(linear.rate(2), 1);
  EXPECT_DOUBLE_EQ(linear.rate(10), 0.1);
  EXPECT_DOUBLE_EQ(linear.rate(100), 0.1);
  EXPECT_THAT(message_of([] { Schedule::cosine(1, 0, 10, 10).check(); }),
              HasSubstr("needs more steps than warm-up"));
  EXPECT_THAT(message_of([] { optim::parse_schedule("cosin"); }),
              HasSubstr("use constant, linear or cosine"));
}

TEST(OptimizerTest, SgdWithMomentumByHand) {
  Net net;
  optim::SGD sgd({*net.fc2.bias},
                 {.learning_rate = optim::Schedule::constant(0.5), .momentum = 0.9});
  const auto trace = trace::Trace::create();
  const Tensor x = trace->input("x", {ir::DType::kF32, {2, 3}});
  const Tensor loss = sum(net(x));  // d loss / d bias = 2
  sgd.step(loss.backward());
  runtime::StateMap states;
  for (const auto& known : trace->states()) {
    states[known.state.name()] = ir::Literal(known.state.type());
  }
  const auto graph = trace->finish({{"loss", loss}});
  const runtime::InputMap inputs{{"x", ir::Literal({ir::DType::kF32, {2, 3}})}};
  runtime::interpret(*graph, inputs, states);
  EXPECT_FLOAT_EQ(states["fc2.bias"].get(0), -1);
  runtime::interpret(*graph, inputs, states);
  EXPECT_FLOAT_EQ(states["optimizer.m.fc2.bias"].get(0), 0.9 * 2 + 2);
  EXPECT_FLOAT_EQ(states["fc2.bias"].get(0), -1 - 0.5 * 3.8);
  EXPECT_EQ(states["step"].get_i64(0), 2);
}

TEST(OptimizerTest, FlatRangePutsDecayedParametersFirst) {
  Net net;
  const auto trace = trace::Trace::create();
  const Tensor loss = sum(net(trace->input("x", {ir::DType::kF32, {2, 3}})));
  const trace::Gradients gradients = loss.backward();
  const optim::FlatRange range(net.parameters(), gradients);
  EXPECT_THAT(names_of(range.parameters()),
              ElementsAre("fc2.weight", "fc1.weight", "fc2.bias", "fc1.bias"));
  EXPECT_EQ(range.num_elements(), 4 * 64);
  EXPECT_EQ(range.num_decay_elements(), 2 * 64);
}

TEST(OptimizerTest, FrozenParametersStay) {
  Net net;
  net.fc1.freeze();
  optim::AdamW adamw(net.parameters(), {.learning_rate = optim::Schedule::constant(0.1)});
  const auto trace = trace::Trace::create();
  const Tensor loss = sum(net(trace->input("x", {ir::DType::kF32, {2, 3}})));
  adamw.step(loss.backward());
  const auto graph = trace->finish({{"loss", loss}});
  std::vector<std::string> updated;
  for (const auto& update : graph->updates()) updated.push_back(update.state->name());
  EXPECT_THAT(updated, testing::Not(Contains("fc1.weight")));
  EXPECT_THAT(updated, Contains("fc2.weight"));
}

TEST(OptimizerTest, BadConfigurationsAreRefused) {
  Net net;
  EXPECT_THAT(
      message_of([&] { optim::AdamW(net.parameters(), {.learning_rate = {}, .beta1 = 1}); }),
      HasSubstr("betas lie in [0, 1)"));
  EXPECT_THAT(message_of([&] {
                optim::SGD(net.parameters(), {.learning_rate = optim::Schedule::constant(-1)});
              }),
              HasSubstr("none may be negative"));
  net.freeze();
  optim::SGD sgd(net.parameters(), {});
  const auto trace = trace::Trace::create();
  const Tensor loss = sum(net(trace->input("x", {ir::DType::kF32, {2, 3}})));
  EXPECT_THAT(message_of([&] { sgd.step(loss.backward()); }),
              HasSubstr("none of its 4 parameters has a gradient"));
}

}  // namespace
}  // namespace monograph::nn
