// Fully sharded and tensor parallel training on ranks that are threads of this process.
#include <gmock/gmock.h>
#include <omp.h>

#include <cmath>

#include "base/message_of.h"
#include "comm/threads/thread_world.h"
#include "frontend/session/executable.h"
#include "frontend/session/monograph.h"

namespace monograph::session {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 4, kBlock = 8, kVocabulary = 24, kRows = 84;

ir::Literal tokens(int64_t step, int64_t first, int64_t count) {
  return ir::Literal::from({ir::DType::kI64, {count, kBlock}}, [&](int64_t i) {
    const int64_t row = first + i / kBlock, column = i % kBlock;
    return static_cast<double>((step * 7 + row * 5 + column * column * 3) % kVocabulary);
  });
}

struct Outcome {
  std::vector<double> losses, norms;
  ir::Literal weight, moment;
  std::string program;
  int64_t state_bytes = 0, gradient_bytes = 0;
  std::map<std::string, int> collectives;
  std::vector<std::string> state_names;
  std::vector<std::string> remarks;  // "pass: reason"
};

struct Setting {
  ir::Mesh mesh;
  nn::ShardStrategy strategy = nn::ShardStrategy::kFullShard;
  CompileOptions options = {};
  int64_t num_micro_batches = 1;
  bool is_sequence_parallel = false;
  bool is_llama = false;
  ir::DType moments = ir::DType::kF32;
};

std::map<std::string, int> collectives_of(const ir::Program& program) {
  std::map<std::string, int> counts;
  for (const ir::Step& step : program.steps) {
    const auto* work = std::get_if<ir::CollectiveStep>(&step.work);
    if (work == nullptr) continue;
    const bool is_f32 = work->dtype == ir::DType::kF32;
    ++counts[fmt::format("{} {}{}", kind_name(work->kind), work->axis,
                         is_f32 ? "" : fmt::format(" {}", ir::dtype_name(work->dtype)))];
  }
  return counts;
}

template <typename Model>
Outcome train_model(Model& model, const std::string& weight, const std::string& embedding,
                    const Setting& setting, std::shared_ptr<const runtime::MeshContext> context) {
  const auto [part, parts] = setting.mesh.batch_part(context == nullptr ? 0 : context->rank);
  const int64_t rows = kRows / parts;
  if (setting.mesh.has("tp")) {
    nn::tensor_parallel(model, setting.mesh,
                        {.is_sequence_parallel = setting.is_sequence_parallel});
  }
  if (setting.mesh.has("fsdp")) {
    nn::fully_shard(model, setting.mesh, {.strategy = setting.strategy});
  }
  optim::AdamW optimizer(model.parameters(), {.learning_rate = optim::Schedule::constant(1e-2),
                                              .weight_decay = 0.1,
                                              .max_norm = 0.5,
                                              .moment_dtype = setting.moments});
  Session session({.seed = 3, .options = setting.options, .mesh = context});
  Compiled step = session.compile([&](const Tensor& x, const Tensor& y) -> Outputs {
    auto [loss, gradients] =
        trace::accumulate(setting.num_micro_batches, {x, y},
                          [&](const auto& slice) { return model.loss(slice[0], slice[1]); });
    for (const std::string& axis : setting.mesh.batch_axes()) {
      gradients = nn::replicate(gradients, setting.mesh, axis);
      loss = trace::all_mean(loss, setting.mesh, axis);
    }
    return {{"loss", loss}, {"norm", optimizer.step(gradients).gradient_norm}};
  });
  Outcome outcome;
  for (int64_t i = 0; i < kSteps; ++i) {
    const Results results = step(tokens(i, part * rows, rows), tokens(i + 1, part * rows, rows));
    outcome.losses.push_back(results.loss());
    outcome.norms.push_back(results.scalar("norm"));
  }
  outcome.weight = session.state(weight);
  outcome.moment = session.state("optimizer.v." + embedding);
  for (const std::string& name : session.state_names()) {
    if (!name.starts_with(ir::kCoordinatePrefix)) outcome.state_names.push_back(name);
  }
  const ir::TensorType input = tokens(0, 0, rows).type();
  if (const Build* build = step.executable({input, input}).build()) {
    const ir::Program& program = build->compilation.program;
    outcome.program = program.str();
    const auto bytes = [&](ir::Segment segment) {
      return program.segment_bytes[static_cast<size_t>(segment)];
    };
    outcome.state_bytes = bytes(ir::Segment::kWeights) + bytes(ir::Segment::kMoments);
    outcome.gradient_bytes = bytes(ir::Segment::kGradients);
    outcome.collectives = collectives_of(program);
    for (const auto* remarks :
         {&step.trace_record({input, input}).remarks, &build->compilation.remarks}) {
      for (const passes::Remark& remark : *remarks) {
        outcome.remarks.push_back(remark.pass + ": " + remark.reason);
      }
    }
  }
  return outcome;
}

Outcome train(const Setting& setting, std::shared_ptr<const runtime::MeshContext> context) {
  if (setting.is_llama) {
    nn::Llama model({.vocab_size = kVocabulary,
                     .block_size = kBlock,
                     .n_layer = 2,
                     .n_head = 4,
                     .n_kv_head = 2,
                     .n_embd = 32,
                     .n_hidden = 48,
                     .is_tied = false});
    return train_model(model, "model.layers.1.self_attn.k_proj.weight", "model.embed_tokens.weight",
                       setting, std::move(context));
  }
  nn::GPT model(
      {.vocab_size = kVocabulary, .block_size = kBlock, .n_layer = 2, .n_head = 4, .n_embd = 16});
  return train_model(model, "h.1.attn.c_attn.weight", "wte.weight", setting, std::move(context));
}

std::vector<Outcome> train_on(const Setting& setting) {
  const auto num_ranks = static_cast<int>(setting.mesh.num_ranks());
  std::vector<Outcome> outcomes(num_ranks);
  comm::run_ranks(num_ranks, [&](comm::World& world) {
    omp_set_num_threads(1);
    outcomes[world.rank] = train(setting, runtime::make_mesh_context(setting.mesh, world));
  });
  return outcomes;
}

void expect_same_training(const std::vector<Outcome>& all, const Outcome& one,
                          double tolerance = 1e-5) {
  for (const Outcome& outcome : all) {
    EXPECT_EQ(outcome.losses, all[0].losses);
    EXPECT_EQ(outcome.weight, all[0].weight);
    EXPECT_EQ(outcome.program, all[0].program);  // one artifact serves all ranks
  }
  EXPECT_EQ(all[0].state_names, one.state_names);
  for (int64_t i = 0; i < kSteps; ++i) {
    EXPECT_NEAR(all[0].losses[i] / one.losses[i], 1, tolerance) << "step " << i;
    EXPECT_NEAR(all[0].norms[i] / one.norms[i], 1, 10 * tolerance) << "step " << i;
  }
  for (int64_t i = 0; i < one.weight.num_elements(); ++i) {
    EXPECT_NEAR(all[0].weight.get(i), one.weight.get(i), 20 * tolerance);
  }
  for (int64_t i = 0; i < one.moment.num_elements(); ++i) {
    EXPECT_NEAR(all[0].moment.get(i), one.moment.get(i), tolerance / 100);
  }
}

Setting sharded(int64_t ranks, nn::ShardStrategy strategy = nn::ShardStrategy::kFullShard) {
  return {.mesh = ir::Mesh({{"fsdp", ranks}}), .strategy = strategy};
}

class FullySharded : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, FullySharded, testing::Values(2, 3, 7));

TEST_P(FullySharded, IsTheTrainingOfOneRank) {
  const Outcome one = train({}, nullptr);
  const std::vector<Outcome> all = train_on(sharded(GetParam()));
  expect_same_training(all, one);
  // Parameters and moments: a part, and the padding of each of five units to equal parts.
  const int64_t padding = 5 * 3 * 4 * (64 * GetParam() + 64 * 30);
  EXPECT_LT(all[0].state_bytes, one.state_bytes / GetParam() + padding);
  EXPECT_EQ(all[0].gradient_bytes, 0);
  EXPECT_THAT(all[0].collectives,
              ElementsAre(std::pair("all_gather fsdp", 7), std::pair("all_reduce fsdp", 2),
                          std::pair("reduce_scatter fsdp", 5)));
}

TEST(FullySharded, ShowsThatNothingFusesAcrossUnits) {
  const std::vector<std::string> remarks = train_on(sharded(2))[0].remarks;
  EXPECT_THAT(remarks, Contains(HasSubstr("shard_units: unit 'h.1' is read here as a whole")));
  EXPECT_THAT(remarks, Contains(testing::AllOf(HasSubstr("fuse: not fused across"),
                                               HasSubstr("all_gather of unit 'vectors'"))));
  EXPECT_THAT(remarks, Contains(testing::AllOf(HasSubstr("fuse: not fused across"),
                                               HasSubstr("reduce_scatter of unit 'vectors'"))));
}

TEST(FullySharded, KeepsUnitsForTheBackwardPassWithShardGradOp) {
  const std::vector<Outcome> all = train_on(sharded(2, nn::ShardStrategy::kShardGradOp));
  expect_same_training(all, train({}, nullptr));
  EXPECT_THAT(all[0].collectives,
              ElementsAre(std::pair("all_gather fsdp", 5), std::pair("all_reduce fsdp", 2),
                          std::pair("reduce_scatter fsdp", 5)));
}

TEST(FullySharded, HybridHasCopiesOfTheParts) {
  const Setting setting = {.mesh = ir::Mesh({{"dp", 2}, {"fsdp", 2}}),
                           .strategy = nn::ShardStrategy::kHybrid};
  const std::vector<Outcome> all = train_on(setting);
  expect_same_training(all, train({}, nullptr));
  EXPECT_THAT(all[0].collectives,
              ElementsAre(std::pair("all_gather fsdp", 7), std::pair("all_reduce dp", 6),
                          std::pair("all_reduce fsdp", 2), std::pair("reduce_scatter fsdp", 5)));
}

TEST(FullySharded, LevelsAndTheInterpreterAgree) {
  Setting setting = sharded(2);
  const Outcome first = train_on(setting)[0];
  for (const int64_t level : {0, 1}) {
    setting.options.comm_optimization_level = level;
    EXPECT_EQ(train_on(setting)[1].losses, first.losses) << "level " << level;
  }
  setting.options.backend = "interpret";
  const Outcome interpreted = train_on(setting)[0];
  for (int64_t i = 0; i < kSteps; ++i) EXPECT_NEAR(interpreted.losses[i], first.losses[i], 1e-5);
}

TEST(FullySharded, GathersForEachMicroBatch) {
  Setting setting = sharded(2);
  setting.num_micro_batches = 3;
  const std::vector<Outcome> all = train_on(setting);
  expect_same_training(all, train({.mesh = {}, .num_micro_batches = 3}, nullptr));
  EXPECT_EQ(all[0].collectives.at("all_gather fsdp"), 15);
  EXPECT_EQ(all[0].collectives.at("reduce_scatter fsdp"), 5);
}

// Matrices that products read as bf16 are narrowed before they are gathered, norms and biases not.
TEST(FullySharded, GathersWhatIsReadAsBf16) {
  Setting setting = sharded(2);
  setting.options.precision = "bf16";
  Setting alone;
  alone.options.precision = "bf16";
  const std::vector<Outcome> all = train_on(setting);
  expect_same_training(all, train(alone, nullptr), 2e-3);
  // Embeddings are read as f32, too.
  EXPECT_EQ(all[0].collectives.at("all_gather fsdp"), 3);
  EXPECT_EQ(all[0].collectives.at("all_gather fsdp bf16"), 4);
  for (const int64_t level : {0, 1}) {
    setting.options.comm_optimization_level = level;
    EXPECT_EQ(train_on(setting)[1].losses, all[0].losses) << "level " << level;
  }
}

TEST(FullySharded, KeepsMomentsInBf16) {
  Setting setting = sharded(3), alone;
  setting.moments = alone.moments = ir::DType::kBF16;
  const std::vector<Outcome> all = train_on(setting);
  const Outcome one = train(alone, nullptr);
  expect_same_training(all, one, 1e-4);
  EXPECT_EQ(all[0].moment.type().dtype, ir::DType::kBF16);
  EXPECT_LT(all[0].state_bytes, train_on(sharded(3))[0].state_bytes);
}

TEST(TensorParallel, IsTheTrainingOfOneRank) {
  const Outcome one = train({}, nullptr);
  for (const int64_t ranks : {2, 4}) {
    const std::vector<Outcome> all = train_on({.mesh = ir::Mesh({{"tp", ranks}})});
    expect_same_training(all, one);
    EXPECT_LT(all[0].state_bytes, one.state_bytes / ranks + 3 * 4096 * 5);
  }
}

// In the forward pass: the embedding, two sums a layer, three for the loss (its largest logits,
// sums and targets); in the backward pass: two a layer, one for the head. And the norm.
TEST(TensorParallel, ExchangesActivationsTwiceALayerAndPass) {
  const std::vector<Outcome> all = train_on({.mesh = ir::Mesh({{"tp", 2}})});
  EXPECT_THAT(all[0].collectives, ElementsAre(std::pair("all_reduce tp", 1 + 4 + 3 + 4 + 1 + 1)));
}

TEST(TensorParallel, SaysWhyEachCollectiveIsThere) {
  const std::vector<std::string> remarks = train_on({.mesh = ir::Mesh({{"tp", 2}})})[0].remarks;
  EXPECT_THAT(remarks, Contains("shard_tensors: axis 'tp': 'add' of h.0.attn.c_proj reads it as a "
                                "whole"));
  EXPECT_THAT(remarks, Contains(HasSubstr("shard_tensors: axis 'tp': 'log' reads it as a whole")));
}

// Logits never exist whole: a chunk has rows of a part of the vocabulary.
TEST(TensorParallel, DoesTheLossHeadInChunks) {
  Setting setting = {.mesh = ir::Mesh({{"tp", 2}})};
  const Outcome one = train({}, nullptr);
  const int before = train_on(setting)[0].collectives.at("all_reduce tp");
  setting.options.loss_chunk_bytes = kRows * kBlock * kVocabulary / 2 * 4 / 3;
  const std::vector<Outcome> all = train_on(setting);
  expect_same_training(all, one);
  EXPECT_THAT(all[0].remarks, Contains(HasSubstr("chunk_loss_head: ")));
  EXPECT_EQ(all[0].collectives.at("all_reduce tp"), before + 2 * 3);
}

TEST(TensorParallel, LlamaByHeadsThatShareKeys) {
  Setting setting = {.mesh = ir::Mesh({{"tp", 2}}), .is_llama = true};
  expect_same_training(train_on(setting), train({.mesh = {}, .is_llama = true}, nullptr));
}

TEST(TensorParallel, SequenceParallelKeepsActivationsInParts) {
  Setting setting = {.mesh = ir::Mesh({{"tp", 2}}), .is_sequence_parallel = true};
  const std::vector<Outcome> all = train_on(setting);
  expect_same_training(all, train({}, nullptr));
  EXPECT_GE(all[0].collectives.at("reduce_scatter tp"), 9);
  // The largest logits, their sums, the targets; gradients of vectors, in one bucket; the norm.
  EXPECT_EQ(all[0].collectives.at("all_reduce tp"), 5);
}

TEST(TensorParallel, WorksWithCopiesAndWithShardedUnits) {
  const Outcome one = train({}, nullptr);
  expect_same_training(train_on({.mesh = ir::Mesh({{"dp", 2}, {"tp", 2}})}), one);
  expect_same_training(train_on({.mesh = ir::Mesh({{"fsdp", 2}, {"tp", 2}})}), one);
}

TEST(TensorParallel, AllAxesOnEightRanks) {
  const Setting setting = {.mesh = ir::Mesh({{"dp", 2}, {"fsdp", 2}, {"tp", 2}}),
                           .strategy = nn::ShardStrategy::kHybrid};
  expect_same_training(train_on(setting), train({}, nullptr));
}

// What is set by the model's names before and after compiling is what is read by them.
TEST(FullySharded, StatesHaveTheNamesAndShapesOfTheModel) {
  comm::run_ranks(3, [](comm::World& world) {
    const ir::Mesh mesh({{"fsdp", 3}});
    nn::MLP model({.vocab_size = 8, .block_size = 2, .n_embd = 4, .n_hidden = 5, .n_layer = 2});
    nn::fully_shard(model, mesh);
    Session session({.mesh = runtime::make_mesh_context(mesh, world)});
    const ir::Literal early = ir::Literal::from(
        {ir::DType::kF32, {8, 5}}, [](int64_t i) { return static_cast<double>(i) / 4; });
    session.set_state("fc1.weight", early);
    Compiled loss =
        session.compile([&](const Tensor& x, const Tensor& y) { return model.loss(x, y); });
    loss(ir::Literal::from_i64({1, 2}, {1, 2}), ir::Literal::from_i64({1}, {3}));
    EXPECT_EQ(session.state("fc1.weight"), early);
    const ir::Literal late = ir::Literal::from(
        {ir::DType::kF32, {5}}, [](int64_t i) { return static_cast<double>(i) - 2; });
    session.set_state("fc1.bias", late);
    EXPECT_EQ(session.state("fc1.bias"), late);
    EXPECT_EQ(session.state("fc1.weight"), early);
    EXPECT_EQ(session.state_type("fc1.bias").str(), "f32[5]");
    EXPECT_THAT(session.state_names(), testing::Contains("fc1.bias"));
  });
}

TEST(TensorParallel, SaysWhatIsWrong) {
  const ir::Mesh mesh({{"tp", 3}});
  nn::GPT gpt({.vocab_size = 24, .block_size = 8, .n_layer = 1, .n_head = 4, .n_embd = 16});
  EXPECT_THAT(message_of([&] { nn::tensor_parallel(gpt, mesh); }),
              HasSubstr("n_head 4 over 3 ranks of axis 'tp': each has whole heads"));
  const auto with = [&](nn::TensorParallelRule rule) {
    return message_of([&] { nn::tensor_parallel(gpt, ir::Mesh({{"tp", 2}}), {rule}); });
  };
  EXPECT_THAT(with({"h.*.mlp.c_fc.weight", 2}), HasSubstr("divides dim 2 of parameter"));
  EXPECT_THAT(with({"h.*.mlp.fc.weight", 1}), HasSubstr("names no parameter of the model"));
  EXPECT_THAT(with({"h.*.mlp.c_fc.weight", 1, 5}),
              HasSubstr("its dim 1, 5 tensors side by side, cannot be divided by the 2 ranks"));
  nn::tensor_parallel(gpt, ir::Mesh({{"tp", 2}}));
  EXPECT_THAT(with({"wte.weight", 0}), HasSubstr("is divided already"));
  EXPECT_THAT(message_of([&] {
                nn::tensor_parallel(gpt, ir::Mesh({{"dp", 2}}));
              }),
              HasSubstr("'tp' is not an axis of mesh(dp=2)"));
}

TEST(FullySharded, SaysWhatIsWrong) {
  const nn::MLPConfig config = {
      .vocab_size = 8, .block_size = 2, .n_embd = 4, .n_hidden = 5, .n_layer = 2};
  nn::MLP model(config);
  const ir::Mesh mesh({{"fsdp", 2}});
  EXPECT_THAT(message_of([&] {
                nn::fully_shard(model, ir::Mesh({{"dp", 2}}));
              }),
              HasSubstr("'fsdp' is not an axis of mesh(dp=2): use 'dp'"));
  EXPECT_THAT(
      message_of([&] { nn::fully_shard(model, mesh, {.strategy = nn::ShardStrategy::kHybrid}); }),
      HasSubstr("strategy hybrid keeps copies of the parts over axis 'dp'"));
  EXPECT_THAT(message_of([] { nn::parse_shard_strategy("zero3"); }),
              HasSubstr("use full-shard, shard-grad-op or hybrid"));
  nn::fully_shard(model, mesh);
  EXPECT_THAT(message_of([&] { nn::fully_shard(model, mesh); }), HasSubstr("shard a model once"));
  const auto compile_step = [&](auto reduce) {
    CompileOptions options;
    options.backend = "null";
    optim::AdamW optimizer(model.parameters(), {.learning_rate = optim::Schedule::constant(1e-2)});
    Compiled step = compile(
        [&](const Tensor& x, const Tensor& y) {
          const Tensor loss = model.loss(x, y);
          optimizer.step(reduce(loss.backward()));
          return loss;
        },
        options);
    step.graph({{ir::DType::kI64, {1, 2}}, {ir::DType::kI64, {1}}});
  };
  EXPECT_THAT(
      message_of([&] { compile_step([](const auto& gradients) { return gradients; }); }),
      HasSubstr("its gradients are not reduced over it: use optimizer.step(nn::replicate("));
  EXPECT_THAT(message_of([&] {
                compile_step([&](const auto& gradients) {
                  return nn::replicate(nn::replicate(gradients, mesh, "fsdp"), mesh, "fsdp");
                });
              }),
              HasSubstr("reduced twice over axis 'fsdp'"));
}

}  // namespace
}  // namespace monograph::session
