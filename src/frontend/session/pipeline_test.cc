// Pipeline parallel training on ranks that are threads of this process.
#include <gmock/gmock.h>
#include <omp.h>

#include <cmath>

#include "base/message_of.h"
#include "comm/threads/thread_world.h"
#include "frontend/session/executable.h"
#include "frontend/session/monograph.h"

namespace monograph::session {
namespace {

using nn::PipelineSchedule;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 3, kBlock = 8, kVocabulary = 24, kRows = 16;

struct Setting {
  ir::Mesh mesh;
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int64_t num_micro_batches = 4;
  std::string backend = "interpret";
  bool is_llama = false, is_tied = true, is_sequence_parallel = false;
  std::string precision = "f32";
  double dropout = 0;
  int64_t loss_chunk_bytes = 0;
};

struct Outcome {
  std::vector<double> losses, norms, evaluations;
  std::map<std::string, ir::Literal> states;  // of all stages
  std::string program;
  std::optional<analysis::PipelineReport> report;
};

ir::Literal tokens(int64_t step, int64_t first, int64_t count) {
  return ir::Literal::from({ir::DType::kI64, {count, kBlock}}, [&](int64_t i) {
    const int64_t row = first + i / kBlock, column = i % kBlock;
    return static_cast<double>((step * 7 + row * 5 + column * column * 3) % kVocabulary);
  });
}

template <typename Model>
optim::AdamW divide(Model& model, const Setting& setting) {
  if (setting.mesh.has("tp")) {
    nn::tensor_parallel(model, setting.mesh,
                        {.is_sequence_parallel = setting.is_sequence_parallel});
  }
  if (setting.mesh.has("pp")) {
    nn::pipeline(model, setting.mesh,
                 {.micro_batches = setting.num_micro_batches, .schedule = setting.schedule});
  }
  return {model.parameters(),
          {.learning_rate = optim::Schedule::constant(1e-2), .weight_decay = 0.1, .max_norm = 0.5}};
}

// `model`, `optimizer` and `setting` must outlive it.
template <typename Model>
Compiled training_step(Session& session, Model& model, optim::AdamW& optimizer,
                       const Setting& setting) {
  return session.compile([&](const Tensor& x, const Tensor& y) -> Outputs {
    auto [loss, gradients] =
        trace::accumulate(setting.num_micro_batches, {x, y},
                          [&](const auto& slice) { return model.loss(slice[0], slice[1]); });
    for (const std::string& axis : setting.mesh.batch_axes()) {
      gradients = nn::replicate(gradients, setting.mesh, axis);
      loss = trace::all_mean(loss, setting.mesh, axis);
    }
    return {{"loss", loss}, {"norm", optimizer.step(gradients).gradient_norm}};
  });
}

template <typename Model>
Outcome train_model(Model& model, const Setting& setting,
                    std::shared_ptr<const runtime::MeshContext> context) {
  const auto [part, parts] = setting.mesh.batch_part(context == nullptr ? 0 : context->rank);
  const int64_t rows = kRows / parts;
  optim::AdamW optimizer = divide(model, setting);
  Session session({.seed = 3,
                   .options = {.backend = setting.backend,
                               .precision = setting.precision,
                               .residual = setting.precision,
                               .loss_chunk_bytes = setting.loss_chunk_bytes},
                   .mesh = std::move(context)});
  Compiled step = training_step(session, model, optimizer, setting);
  Compiled evaluation = session.compile([&](const Tensor& x, const Tensor& y) {
    Tensor loss = model.loss(x, y);
    for (const std::string& axis : setting.mesh.batch_axes()) {
      loss = trace::all_mean(loss, setting.mesh, axis);
    }
    return loss;
  });
  Outcome outcome;
  for (int64_t i = 0; i < kSteps; ++i) {
    const ir::Literal x = tokens(i, part * rows, rows), y = tokens(i + 1, part * rows, rows);
    const Results results = step(x, y);
    outcome.losses.push_back(results.loss());
    outcome.norms.push_back(results.scalar("norm"));
    model.eval();
    outcome.evaluations.push_back(evaluation(x, y).loss());
    model.train();
  }
  for (const std::string& name : session.state_names()) {
    if (!name.starts_with(ir::kCoordinatePrefix)) outcome.states[name] = session.state(name);
  }
  const ir::TensorType input = tokens(0, 0, rows).type();
  outcome.report = step.trace_record({input, input}).pipeline;
  if (const Build* build = step.executable({input, input}).build()) {
    outcome.program = build->compilation.program.str();
  }
  return outcome;
}

Outcome train(const Setting& setting, std::shared_ptr<const runtime::MeshContext> context) {
  if (setting.is_llama) {
    nn::Llama model({.vocab_size = kVocabulary,
                     .block_size = kBlock,
                     .n_layer = 4,
                     .n_head = 2,
                     .n_kv_head = 2,
                     .n_embd = 16,
                     .n_hidden = 24,
                     .is_tied = setting.is_tied});
    return train_model(model, setting, std::move(context));
  }
  nn::GPT model({.vocab_size = kVocabulary,
                 .block_size = kBlock,
                 .n_layer = 4,
                 .n_head = 2,
                 .n_embd = 16,
                 .dropout = setting.dropout});
  return train_model(model, setting, std::move(context));
}

std::vector<Outcome> train_on(const Setting& setting) {
  std::vector<Outcome> outcomes(static_cast<size_t>(setting.mesh.num_ranks()));
  comm::run_ranks(static_cast<int>(outcomes.size()), [&](comm::World& world) {
    omp_set_num_threads(1);
    const auto context = runtime::make_mesh_context(setting.mesh, world);
    context->timeout = comm::Milliseconds(20'000);
    outcomes[static_cast<size_t>(world.rank)] = train(setting, context);
  });
  return outcomes;
}

double largest_difference(const ir::Literal& a, const ir::Literal& b) {
  double largest = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    largest = std::max(largest, std::abs(a.get(i) - b.get(i)));
  }
  return largest;
}

std::vector<Outcome> expect_one_ranks_training(const Setting& setting) {
  Setting alone = setting;
  alone.mesh = ir::Mesh();
  const Outcome one = train(alone, nullptr);
  std::vector<Outcome> all = train_on(setting);
  for (const Outcome& outcome : all) {
    EXPECT_EQ(outcome.losses, all[0].losses);
    EXPECT_EQ(outcome.evaluations, all[0].evaluations);
    EXPECT_EQ(outcome.states, all[0].states);
  }
  const double tolerance = setting.precision == "f32" ? 1e-5 : 1e-3;
  for (size_t i = 0; i < kSteps; ++i) {
    EXPECT_NEAR(all[0].losses[i] / one.losses[i], 1, tolerance) << "step " << i;
    EXPECT_NEAR(all[0].norms[i] / one.norms[i], 1, 10 * tolerance) << "step " << i;
    EXPECT_NEAR(all[0].evaluations[i] / one.evaluations[i], 1, tolerance) << "step " << i;
  }
  EXPECT_EQ(all[0].states.size(), one.states.size());
  for (const auto& [name, value] : one.states) {
    if (!all[0].states.contains(name)) {
      ADD_FAILURE() << "no state " << name;
    } else {
      EXPECT_LT(largest_difference(all[0].states.at(name), value), 10 * tolerance) << name;
    }
  }
  return all;
}

std::string name_of(const Setting& setting) {
  std::string name = setting.is_llama ? setting.is_tied ? "llama" : "untied_llama" : "gpt";
  for (const ir::Mesh::Axis& axis : setting.mesh.axes()) {
    name += fmt::format("_{}{}", axis.name, axis.size);
  }
  name += setting.schedule == PipelineSchedule::kZeroBubble    ? "_zero_bubble"
          : setting.schedule == PipelineSchedule::kInterleaved ? "_interleaved"
                                                               : "_1f1b";
  if (setting.precision != "f32") name += "_" + setting.precision;
  if (setting.dropout > 0) name += "_dropout";
  if (setting.is_sequence_parallel) name += "_sequence";
  if (setting.loss_chunk_bytes > 0) name += "_chunks";
  return name + "_" + setting.backend;
}

const ir::Mesh kTwo({{"pp", 2}}), kFour({{"pp", 4}});
constexpr auto kZeroBubble = PipelineSchedule::kZeroBubble;
constexpr auto kInterleaved = PipelineSchedule::kInterleaved;

class Pipeline : public testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(
    Of, Pipeline,
    testing::Values(
        Setting{.mesh = kTwo}, Setting{.mesh = kFour},
        Setting{.mesh = kTwo, .schedule = kInterleaved},
        Setting{.mesh = kTwo, .schedule = kZeroBubble},
        Setting{.mesh = kTwo, .num_micro_batches = 1, .is_llama = true},
        Setting{.mesh = kFour, .schedule = kZeroBubble, .is_llama = true},
        Setting{.mesh = kTwo, .schedule = kInterleaved, .is_llama = true, .is_tied = false},
        Setting{.mesh = kFour, .schedule = kZeroBubble, .backend = "cpu"},
        Setting{.mesh = ir::Mesh({{"dp", 2}, {"pp", 2}}),
                .schedule = kZeroBubble,
                .backend = "cpu",
                .dropout = 0.2},
        Setting{.mesh = ir::Mesh({{"pp", 2}, {"tp", 2}})},
        Setting{.mesh = ir::Mesh({{"pp", 2}, {"tp", 2}}),
                .schedule = kZeroBubble,
                .is_sequence_parallel = true},
        Setting{.mesh = kTwo, .schedule = kZeroBubble, .backend = "cpu", .loss_chunk_bytes = 1600},
        Setting{.mesh = kTwo, .precision = "bf16"}),
    [](const auto& one) { return name_of(one.param); });

TEST_P(Pipeline, IsTheTrainingOfOneRank) {
  const std::vector<Outcome> all = expect_one_ranks_training(GetParam());
  if (GetParam().backend != "cpu") return;
  // One artifact serves all ranks of a stage.
  const ir::Mesh& mesh = GetParam().mesh;
  for (int64_t a = 0; a < mesh.num_ranks(); ++a) {
    for (int64_t b = 0; b < a; ++b) {
      EXPECT_EQ(all[static_cast<size_t>(a)].program == all[static_cast<size_t>(b)].program,
                mesh.stage(a) == mesh.stage(b));
    }
  }
}

// One process compiles for a mesh that is not there what its ranks run.
TEST(PipelineArtifact, IsCompiledForADescribedMesh) {
  const Setting setting = {.mesh = ir::Mesh({{"dp", 2}, {"pp", 2}}), .backend = "cpu"};
  const std::vector<Outcome> all = train_on(setting);
  for (int rank = 0; rank < 4; ++rank) {
    nn::GPT model(
        {.vocab_size = kVocabulary, .block_size = kBlock, .n_layer = 4, .n_head = 2, .n_embd = 16});
    optim::AdamW optimizer = divide(model, setting);
    Session session({.seed = 3,
                     .options = {.backend = "null"},
                     .mesh = runtime::describe_mesh(setting.mesh, rank)});
    Compiled step = training_step(session, model, optimizer, setting);
    const ir::TensorType input = tokens(0, 0, kRows / 2).type();
    EXPECT_EQ(step.executable({input, input}).build()->compilation.program.str(),
              all[static_cast<size_t>(rank)].program);
  }
}

TEST(PipelineReport, SaysWhatStagesHaveAndHowLongTheyStandStill) {
  const Outcome first = train_on({.mesh = kTwo, .schedule = kZeroBubble})[0];
  ASSERT_TRUE(first.report.has_value());
  const analysis::PipelineReport& report = *first.report;
  EXPECT_EQ(report.stages[0].layers, "h.0 .. h.1");
  EXPECT_EQ(report.stages[1].layers, "h.2 .. h.3");
  EXPECT_NEAR(report.stages[0].work_share + report.stages[1].work_share, 1, 1e-9);
  EXPECT_GT(report.stages[1].work_share, report.stages[0].work_share);  // it has the head
  EXPECT_NEAR(report.equal_bubble_share, 1.0 / 13, 1e-9);               // (p-1)/(3m+p-1)
  EXPECT_GT(report.bubble_share, 0);
  EXPECT_LT(report.bubble_share, 0.5);
}

TEST(PipelineErrors, SayWhatToDo) {
  const auto cut = [](int64_t ranks, nn::PipelineOptions options) {
    return message_of<UserError>([&] {
      nn::GPT model({.vocab_size = 8, .block_size = 8, .n_layer = 3, .n_head = 1, .n_embd = 4});
      nn::pipeline(model, ir::Mesh({{"pp", ranks}}), options);
    });
  };
  EXPECT_THAT(cut(4, {}), HasSubstr("a pipeline of 4 stages for a model of 3 layers"));
  EXPECT_THAT(cut(2, {.schedule = kInterleaved}),
              HasSubstr("1 micro-batches over 2 ranks of axis 'pp': use a multiple of 2"));
  EXPECT_THAT(cut(2, {.micro_batches = 2, .schedule = kInterleaved}),
              HasSubstr("a pipeline of 4 stages for a model of 3 layers: each stage has one at "
                        "least, use fewer ranks of axis 'pp' or chunks"));
  EXPECT_THAT(cut(2, {.micro_batches = 0}), HasSubstr("0 micro-batches: use 1 or more"));
  EXPECT_THAT(message_of<UserError>([] { nn::parse_pipeline_schedule("gpipe"); }),
              HasSubstr("schedule 'gpipe': use 1f1b, interleaved or zb-h1"));
  EXPECT_THAT(message_of<UserError>([] { nn::parse_pipeline_cut("half"); }),
              HasSubstr("cut 'half': use layers or cost"));
}

TEST(PipelineErrors, AStepOfOtherMicroBatchesIsRefused) {
  nn::GPT model({.vocab_size = 8, .block_size = 8, .n_layer = 2, .n_head = 1, .n_embd = 4});
  nn::pipeline(model, kTwo, {.micro_batches = 2});
  optim::SGD optimizer(model.parameters(), {.learning_rate = optim::Schedule::constant(1)});
  Session session({.options = {.backend = "null"}});
  Compiled step = session.compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = model.loss(x, y);
    optimizer.step(loss.backward());
    return loss;
  });
  const ir::TensorType input{ir::DType::kI64, {4, 8}};
  EXPECT_THAT(message_of<UserError>([&] {
                step.graph({input, input});
              }),
              HasSubstr("the pipeline has 2 micro-batches, the step 1: trace it with "
                        "trace::accumulate(2, ...)"));
}

TEST(PipelineErrors, FullyShardedStagesAreRefused) {
  const ir::Mesh mesh({{"fsdp", 2}, {"pp", 2}});
  nn::GPT model({.vocab_size = 8, .block_size = 8, .n_layer = 2, .n_head = 1, .n_embd = 4});
  nn::pipeline(model, mesh, {});
  EXPECT_THAT(message_of<UserError>([&] { nn::fully_shard(model, mesh); }),
              HasSubstr("fully_shard of a model in a pipeline"));
}

// --- functions of one's own on each stage --------------------------------------------------------

trace::Parameter parameter(const std::string& name, ir::Shape shape, double value) {
  return {name,
          {ir::DType::kF32, std::move(shape)},
          ir::StateRole::kParameter,
          trace::Initializer::constant(value)};
}

// One step of gradient descent on sum((x w)^2) + b, w on rank 0, the squares and b on rank 1.
// `num_sends`: of rank 0.
std::map<std::string, double> descend(comm::World& world, const std::string& backend,
                                      int num_sends = 1) {
  trace::Parameter w = parameter("w", {2}, 3), b = parameter("b", {}, 1);
  Session session(
      {.options = {.backend = backend}, .mesh = runtime::make_mesh_context(kTwo, world)});
  const auto update = [](const Tensor& loss, const trace::Parameter& which) {
    trace::Trace& trace = loss.trace();
    trace.update(which, trace.read(which) - 0.1 * loss.backward()[which]);
  };
  Compiled step = session.compile([&](const Tensor& x) {
    Tensor loss;
    if (world.rank == 0) {
      loss = trace::send(x * w, kTwo, "pp", 1);
      for (int i = 1; i < num_sends; ++i) loss = loss + trace::send(x * 2.0, kTwo, "pp", 1);
      update(loss, w);
    } else {
      const Tensor before = x.trace().read(b);
      const Tensor h = trace::recv(before, {ir::DType::kF32, {2}}, kTwo, "pp", 0);
      loss = sum(h * h) + before;
      update(loss, b);
    }
    return loss;
  });
  std::map<std::string, double> result;
  result["loss"] = step(ir::Literal::from_f32({2}, {1, 2})).loss();
  if (world.rank == 0) {
    result["w0"] = session.state("w").get(0);
    result["w1"] = session.state("w").get(1);
  } else {
    result["b"] = session.state("b").get(0);
  }
  return result;
}

TEST(SendRecv, GradientsGoBackToTheSender) {
  for (const char* backend : {"interpret", "cpu"}) {
    comm::run_ranks(2, [&](comm::World& world) {
      auto result = descend(world, backend);
      if (world.rank == 0) {
        EXPECT_EQ(result["loss"], 0);
        EXPECT_FLOAT_EQ(result["w0"], 3 - 0.1F * 2 * 3 * 1);
        EXPECT_FLOAT_EQ(result["w1"], 3 - 0.1F * 2 * 6 * 2);
      } else {
        EXPECT_EQ(result["loss"], 9 + 36 + 1);
        EXPECT_FLOAT_EQ(result["b"], 0.9F);
      }
    });
  }
}

// One rank of the second stage has another step than the other: all ranks of both stages stop.
TEST(SendRecv, RanksOfOneStageThatDifferStopAllRanks) {
  const ir::Mesh mesh({{"dp", 2}, {"pp", 2}});
  std::vector<std::string> messages(4);
  comm::run_ranks(4, [&](comm::World& world) {
    Session session(
        {.options = {.backend = "interpret"}, .mesh = runtime::make_mesh_context(mesh, world)});
    Compiled step = session.compile([&](const Tensor& x) {
      const Tensor y = sum(x);
      return world.rank == 3 ? exp(y) : y;
    });
    messages[static_cast<size_t>(world.rank)] = message_of<UserError>([&] {
      step(ir::Literal::from_f32({2}, {1, 2}));
    });
  });
  for (const std::string& message : messages) {
    EXPECT_THAT(message, HasSubstr("of stage 1: the 2 ranks have not compiled the same"));
    EXPECT_THAT(message, HasSubstr("rank 1 against rank 3"));
  }
}

TEST(SendRecv, AnUnmatchedSendStopsAllRanksAndNamesBothSides) {
  for (const char* backend : {"interpret", "cpu"}) {
    std::vector<std::string> messages(2);
    comm::run_ranks(2, [&](comm::World& world) {
      messages[static_cast<size_t>(world.rank)] =
          message_of<UserError>([&] { descend(world, backend, 2); });
    });
    for (const std::string& message : messages) {
      EXPECT_THAT(message, HasSubstr("sends and recvs of the stages do not meet"));
      EXPECT_THAT(message, HasSubstr("\n  stage 0: call "));
      EXPECT_THAT(message, HasSubstr("\n  stage 1: "));
      EXPECT_THAT(message, HasSubstr("send to 1: 2 f32 'transfer'"));
    }
  }
}

}  // namespace
}  // namespace monograph::session
