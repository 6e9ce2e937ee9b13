// Whole training steps, compiled, against the interpreter: with all passes, with each pass off in
// turn, and stopped after each number of passes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "compiler/pipeline.h"
#include "frontend/session/executable.h"
#include "frontend/session/monograph.h"
#include "ir/parser.h"
#include "ir/printer.h"

namespace monograph {
namespace {

constexpr int64_t kRows = 2, kLength = 12;

ir::Literal ids(ir::Shape shape, int64_t first) {
  return ir::Literal::from({ir::DType::kI64, std::move(shape)}, [=](int64_t i) {
    return static_cast<double>((first + 7 * i * i) % 29);
  });
}

struct TrainingRun {
  std::vector<double> losses;
  double norm_of_states = 0;
  int64_t peak_bytes = 0;
  int num_recomputed = 0;  // launches
};

// Three steps of a model from the same seed.
template <typename Model>
TrainingRun train(Model& model, const ir::Literal& tokens, const ir::Literal& targets,
                  const CompileOptions& options) {
  optim::AdamW optimizer(model.parameters(),
                         {.learning_rate = optim::Schedule::cosine(1e-2, 1e-3, 2, 10),
                          .weight_decay = 0.1,
                          .max_norm = 0.5});
  Session session({.seed = 3, .options = options});
  auto step = session.compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = model.loss(x, y);
    optimizer.step(loss.backward());
    return loss;
  });
  TrainingRun run;
  for (int i = 0; i < 3; ++i) run.losses.push_back(step(tokens, targets).loss());
  for (const std::string& name : session.state_names()) {
    const ir::Literal state = session.state(name);
    for (int64_t i = 0; i < state.num_elements(); ++i) {
      run.norm_of_states += state.get(i) * state.get(i);
    }
  }
  const session::Build* build = step.executable({tokens.type(), targets.type()}).build();
  if (build == nullptr) return run;
  run.peak_bytes = build->compilation.program.peak_bytes;
  run.num_recomputed = build->compilation.recomputation.num_kernels;
  return run;
}

TrainingRun train_gpt(const CompileOptions& options, int64_t width = 16, int64_t rows = kRows) {
  nn::GPT model({.vocab_size = 29,
                 .block_size = kLength,
                 .n_layer = 2,
                 .n_head = 2,
                 .n_embd = width,
                 .dropout = 0.1});
  return train(model, ids({rows, kLength}, 1), ids({rows, kLength}, 5), options);
}

TrainingRun train_llama(const CompileOptions& options) {
  nn::Llama model({.vocab_size = 29,
                   .block_size = kLength,
                   .n_layer = 2,
                   .n_head = 4,
                   .n_kv_head = 2,
                   .n_embd = 16,
                   .n_hidden = 20});
  return train(model, ids({kRows, kLength}, 1), ids({kRows, kLength}, 5), options);
}

TrainingRun train_resnet(const CompileOptions& options) {
  nn::ResNet model({.blocks = {1, 1}, .is_bottleneck = false, .width = 4, .num_classes = 3});
  const ir::Literal images = ir::Literal::from({DType::kF32, {kRows, 16, 16, 3}}, [](int64_t i) {
    return static_cast<double>(i * i % 97) / 48 - 1;
  });
  return train(model, images, ir::Literal::from_i64({kRows}, {0, 2}), options);
}

TrainingRun train_mlp(const CompileOptions& options) {
  nn::MLP model({.vocab_size = 29, .block_size = 4, .n_embd = 8, .n_hidden = 16});
  return train(model, ids({kRows, 4}, 1), ids({kRows}, 5), options);
}

void expect_close(const TrainingRun& found, const TrainingRun& expected, const std::string& what) {
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(found.losses[i] / expected.losses[i], 1, 2e-5) << what << ", step " << i;
  }
  EXPECT_NEAR(found.norm_of_states / expected.norm_of_states, 1, 1e-4) << what;
}

std::set<std::string> optional_passes() {
  std::set<std::string> names, required;
  for (const auto& step : compiler::pipeline()) {
    (step.is_required ? required : names).insert(std::string(step.name));
  }
  for (const std::string& name : required) names.erase(name);
  return names;
}

TEST(CompiledModels, AgreeWithTheInterpreterWithEachPassOffInTurn) {
  const TrainingRun gpt = train_gpt({.backend = "interpret"});
  const TrainingRun llama = train_llama({.backend = "interpret"});
  const TrainingRun mlp = train_mlp({.backend = "interpret"});
  expect_close(train_gpt({}), gpt, "gpt, all passes");
  expect_close(train_llama({}), llama, "llama, all passes");
  expect_close(train_mlp({}), mlp, "mlp, all passes");
  for (const std::string& name : optional_passes()) {
    expect_close(train_gpt({.disabled_passes = {name}}), gpt, "gpt without " + name);
    expect_close(train_llama({.disabled_passes = {name}}), llama, "llama without " + name);
    expect_close(train_mlp({.disabled_passes = {name}}), mlp, "mlp without " + name);
  }
}

TEST(CompiledModels, AgreeWithTheInterpreterWhereverThePipelineStops) {
  const TrainingRun mlp = train_mlp({.backend = "interpret"});
  for (int64_t stop = 0; stop <= 12; stop += 4) {
    expect_close(train_mlp({.stop_after = stop}), mlp, fmt::format("stopped after {}", stop));
  }
}

TEST(CompiledModels, ResNetAgreesWithTheInterpreter) {
  const TrainingRun resnet = train_resnet({.backend = "interpret"});
  expect_close(train_resnet({}), resnet, "resnet, all passes");
  for (const std::string name : {"fuse", "schedule", "legalize_reductions"}) {
    if (!optional_passes().contains(name)) continue;
    expect_close(train_resnet({.disabled_passes = {name}}), resnet, "resnet without " + name);
  }
}

TEST(CompiledModels, TwoRunsAreBitwiseEqual) {
  const TrainingRun first = train_gpt({}), second = train_gpt({});
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.norm_of_states, second.norm_of_states);
}

// Neither what is cheap to make again nor a memory budget changes a bit, with random masks too.
TEST(CompiledModels, KeepEveryBitUnderAMemoryBudget) {
  constexpr int64_t kWidth = 32, kManyRows = 32;  // a launch more must not matter
  const TrainingRun whole = train_gpt({.disabled_passes = {"rematerialize"}}, kWidth, kManyRows);
  const TrainingRun cheap = train_gpt({}, kWidth, kManyRows);
  const TrainingRun least =
      train_gpt({.memory_budget = "0.85", .recompute = "products"}, kWidth, kManyRows);
  EXPECT_EQ(whole.num_recomputed, 0);
  for (const TrainingRun* again : {&cheap, &least}) {
    EXPECT_EQ(again->losses, whole.losses);
    EXPECT_EQ(again->norm_of_states, whole.norm_of_states);
    EXPECT_GT(again->num_recomputed, 0);
  }
  EXPECT_LT(cheap.peak_bytes, whole.peak_bytes);
  EXPECT_LE(least.peak_bytes, 0.85 * cheap.peak_bytes);
}

TEST(CompiledModels, TheTracedGraphTextParsesBackToTheSameHash) {
  // The compiled function's own graph, fused nodes included, is covered by the printer's tests.
  nn::MLP model({.vocab_size = 29, .block_size = 4, .n_embd = 8, .n_hidden = 16});
  auto loss = compile([&](const Tensor& x, const Tensor& y) { return model.loss(x, y); });
  const ir::Graph& graph = loss.graph({{DType::kI64, {kRows, 4}}, {DType::kI64, {kRows}}});
  EXPECT_EQ(ir::parse_graph(ir::to_text(graph))->hash(), graph.hash());
}

}  // namespace
}  // namespace monograph
