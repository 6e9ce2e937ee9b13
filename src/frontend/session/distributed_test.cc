// Data parallel training and collectives on ranks that are threads of this process.
#include <gmock/gmock.h>
#include <omp.h>

#include <cmath>
#include <mutex>

#include "base/error.h"
#include "comm/any_rank.h"
#include "comm/threads/thread_world.h"
#include "frontend/session/executable.h"
#include "frontend/session/monograph.h"
#include "frontend/session/state_store.h"

namespace monograph::session {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSteps = 4, kBlock = 4, kVocabulary = 16;

ir::Mesh data_mesh(int64_t size) {
  return ir::Mesh({{"data", size}});
}

// Rows first .. first + count of a batch that every rank could make.
ir::Literal tokens(int64_t step, int64_t first, int64_t count, int64_t length) {
  std::vector<int64_t> values;
  for (int64_t row = first; row < first + count; ++row) {
    for (int64_t i = 0; i < length; ++i) {
      values.push_back((step * 7 + row * 5 + i * i * 3) % kVocabulary);
    }
  }
  return ir::Literal::from_i64(length == 1 ? ir::Shape{count} : ir::Shape{count, length},
                               std::move(values));
}

struct Outcome {
  std::vector<double> losses;
  ir::Literal weight;
  std::string program;
  int num_copies = 0;
};

int copies_in(const ir::Graph& graph) {
  int count = 0;
  for (const auto& node : graph.nodes()) {
    if (node->body() == nullptr) continue;
    const auto& nodes = node->body()->nodes();
    count += nodes.size() == 2 && nodes[1]->is("clone");
  }
  return count;
}

// Trains on a rank's part of batches of 84 rows: 1, 2, 3, 4 and 7 ranks have equal parts.
Outcome train(const ir::Mesh& mesh, std::shared_ptr<const runtime::MeshContext> context,
              const CompileOptions& options = {}) {
  const int64_t rank = context == nullptr ? 0 : context->rank;
  const int64_t rows = 84 / mesh.num_ranks();
  nn::MLP model({.vocab_size = kVocabulary,
                 .block_size = kBlock,
                 .n_embd = 32,
                 .n_hidden = 96,
                 .n_layer = 2});
  optim::AdamW optimizer(model.parameters(),
                         {.learning_rate = optim::Schedule::constant(1e-2), .max_norm = 1.0});
  Session session({.seed = 3, .options = options, .mesh = context});
  Compiled step = session.compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = model.loss(x, y);
    optimizer.step(nn::replicate(loss.backward(), mesh));
    return trace::all_mean(loss, mesh, "data");
  });
  Outcome outcome;
  for (int64_t i = 0; i < kSteps; ++i) {
    const ir::Literal x = tokens(i, rank * rows, rows, kBlock);
    const ir::Literal y = tokens(i + 1, rank * rows, rows, 1);
    outcome.losses.push_back(step(x, y).loss());
    if (i > 0 || options.backend != "cpu") continue;
    const Build& build = *step.executable({x.type(), y.type()}).build();
    outcome.program = build.compilation.program.str();
    outcome.num_copies = copies_in(*build.compilation.graph);
  }
  outcome.weight = session.state("fc1.weight");
  return outcome;
}

std::vector<Outcome> train_on(int num_ranks, const CompileOptions& options = {}) {
  std::vector<Outcome> outcomes(num_ranks);
  comm::run_ranks(num_ranks, [&](comm::World& world) {
    omp_set_num_threads(1);
    const ir::Mesh mesh = data_mesh(num_ranks);
    outcomes[world.rank] = train(mesh, runtime::make_mesh_context(mesh, world), options);
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

class DataParallel : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DataParallel, testing::Values(1, 2, 3, 4, 7));

TEST_P(DataParallel, IsTheTrainingOfOneRank) {
  const Outcome one = train(data_mesh(1), nullptr);
  const std::vector<Outcome> all = train_on(GetParam());
  for (const Outcome& outcome : all) {
    EXPECT_EQ(outcome.losses, all[0].losses);
    EXPECT_EQ(outcome.weight, all[0].weight);
    EXPECT_EQ(outcome.program, all[0].program);  // one artifact serves all ranks
    EXPECT_EQ(outcome.num_copies, one.num_copies);
    EXPECT_LT(largest_difference(outcome.weight, one.weight), 2e-5);
    for (int64_t i = 0; i < kSteps; ++i) {
      EXPECT_NEAR(outcome.losses[i] / one.losses[i], 1, 1e-5) << "step " << i;
    }
  }
}

constexpr int64_t kNone = -100;  // a target that does not count

// Trains on batches of 6 slots. Step i has valid[i] rows, and what is missing is filled up. Goes on
// while any rank has a step left.
Outcome train_unevenly(const std::vector<int64_t>& valid, const std::vector<int64_t>& first,
                       const ir::Mesh& mesh, std::shared_ptr<const runtime::MeshContext> context) {
  constexpr int64_t kSlots = 6;
  const int64_t slots = kSlots * (context == nullptr ? mesh.num_ranks() : 1);
  const ir::Mesh own = context == nullptr ? data_mesh(1) : mesh;
  nn::MLP model({.vocab_size = kVocabulary,
                 .block_size = kBlock,
                 .n_embd = 16,
                 .n_hidden = 24,
                 .n_layer = 2});
  optim::AdamW optimizer(model.parameters(),
                         {.learning_rate = optim::Schedule::constant(1e-2), .max_norm = 1.0});
  Session session({.seed = 3, .mesh = context});
  Compiled step = session.compile([&](const Tensor& x, const Tensor& y) {
    const Tensor count = count_valid(y, kNone);
    const Tensor loss = model.loss(x, y, kNone) * (count / nn::mean_count(count, own));
    optimizer.step(nn::replicate(loss.backward(), own));
    return trace::all_mean(loss, own, "data");
  });
  Outcome outcome;
  const auto goes_on = [&](size_t i) {
    const bool has_next = i < valid.size();
    return context == nullptr
               ? has_next
               : comm::any_rank(context->along("data", own.num_ranks()), has_next, "data");
  };
  for (size_t i = 0; goes_on(i); ++i) {
    const int64_t rows = i < valid.size() ? valid[i] : 0;
    const int64_t at = i < first.size() ? first[i] : 0;
    ir::Literal x = tokens(i, at, slots, kBlock), y = tokens(i + 1, at, slots, 1);
    std::span<int64_t> targets = y.as<int64_t>();
    std::fill(targets.begin() + rows, targets.end(), kNone);
    outcome.losses.push_back(step(x, y).loss());
  }
  outcome.weight = session.state("fc1.weight");
  return outcome;
}

class UnevenBatches : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, UnevenBatches, testing::Values(2, 3));

// Rank 0 has three batches, the last of them short; rank 1 has five; rank 2 one. One rank has, in
// each step, the rows of all.
TEST_P(UnevenBatches, AreTheTrainingOfOneRankOnAllTheirRows) {
  const int size = GetParam();
  const std::vector<std::vector<int64_t>> rows = {{6, 6, 2}, {6, 5, 6, 1, 6}, {3}};
  std::vector<std::vector<int64_t>> first(size);
  std::vector<int64_t> all;
  for (size_t i = 0; i < 5; ++i) {
    int64_t at = 0;
    for (int rank = 0; rank < size; ++rank) {
      first[rank].push_back(at);
      at += i < rows[rank].size() ? rows[rank][i] : 0;
    }
    all.push_back(at);
  }
  const Outcome one = train_unevenly(all, {}, data_mesh(size), nullptr);
  comm::run_ranks(size, [&](comm::World& world) {
    omp_set_num_threads(1);
    const ir::Mesh mesh = data_mesh(size);
    const Outcome outcome = train_unevenly(rows[world.rank], first[world.rank], mesh,
                                           runtime::make_mesh_context(mesh, world));
    ASSERT_EQ(outcome.losses.size(), 5u);
    EXPECT_LT(largest_difference(outcome.weight, one.weight), 2e-5);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_NEAR(outcome.losses[i] / one.losses[i], 1, 1e-5) << "step " << i;
    }
  });
}

TEST(DataParallel, TwoRunsAreBitwiseEqualAndLevelsToo) {
  const Outcome first = train_on(2)[0];
  for (const int64_t level : {2, 1, 0}) {
    CompileOptions options;
    options.comm_optimization_level = level;
    const Outcome second = train_on(2, options)[1];
    EXPECT_EQ(first.losses, second.losses) << "level " << level;
    EXPECT_EQ(first.weight, second.weight) << "level " << level;
  }
}

TEST(DataParallel, TheInterpreterDoesTheSame) {
  CompileOptions options;
  options.backend = "interpret";
  const Outcome interpreted = train_on(2, options)[1];
  const Outcome compiled = train_on(2)[1];
  EXPECT_LT(largest_difference(interpreted.weight, compiled.weight), 2e-5);
}

TEST(DataParallel, BucketsArePagesOfTheGradientSegmentWithoutCopies) {
  CompileOptions options;
  options.backend = "null";
  options.link = {.latency_s = 1e-6, .bytes_per_s = 4096e6};
  const ir::Mesh mesh = data_mesh(2);
  nn::MLP model({.vocab_size = kVocabulary,
                 .block_size = kBlock,
                 .n_embd = 32,
                 .n_hidden = 96,
                 .n_layer = 3});
  optim::AdamW optimizer(model.parameters(),
                         {.learning_rate = optim::Schedule::constant(1e-2), .max_norm = 1.0});
  Session session({.options = options});
  Compiled step = session.compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = model.loss(x, y);
    optimizer.step(nn::replicate(loss.backward(), mesh));
    return loss;
  });
  const Build& build =
      *step.executable({tokens(0, 0, 8, kBlock).type(), tokens(0, 0, 8, 1).type()}).build();
  EXPECT_EQ(copies_in(*build.compilation.graph), 0);
  int64_t end = 0;
  int num_buckets = 0;
  for (const ir::Step& each : build.compilation.program.steps) {
    const auto* bucket = std::get_if<ir::CollectiveStep>(&each.work);
    if (bucket == nullptr) continue;
    ++num_buckets;
    EXPECT_EQ(bucket->from, bucket->to);
    EXPECT_EQ(bucket->to.segment, ir::Segment::kGradients);
    EXPECT_EQ(bucket->to.offset, end);
    EXPECT_EQ(bucket->to.offset % 4096, 0);
    end += bucket->num_bytes();
  }
  EXPECT_GE(num_buckets, 3);
  EXPECT_LE(end,
            build.compilation.program.segment_bytes[static_cast<int>(ir::Segment::kGradients)]);
  EXPECT_GE(end, 4 * model.num_parameters());
}

// Every rank's x is 1 + rank at each of four elements.
ir::Literal ones_of(int rank) {
  const float x = 1.0F + static_cast<float>(rank);
  return ir::Literal::from_f32({4}, {x, x, x, x});
}

class Collectives : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Backends, Collectives, testing::Values("cpu", "interpret"));

TEST_P(Collectives, OfTheUserRunInsideAStep) {
  comm::run_ranks(2, [&](comm::World& world) {
    omp_set_num_threads(1);
    const ir::Mesh mesh = data_mesh(2);
    CompileOptions options;
    options.backend = GetParam();
    Session session({.options = options, .mesh = runtime::make_mesh_context(mesh, world)});
    Compiled step = session.compile([&](const Tensor& x) {
      return trace::Outputs{{"sum", trace::all_reduce(x, mesh, "data")},
                            {"max", trace::all_reduce(x * 2.0, mesh, "data", "max")},
                            {"root", trace::broadcast(x * x, mesh, "data", 1)},
                            {"all", trace::all_gather(x, mesh, "data")},
                            {"part", trace::reduce_scatter(x, mesh, "data")},
                            {"exchanged", trace::all_to_all(x, mesh, "data")},
                            {"place", trace::coordinate(x.trace(), mesh, "data")}};
    });
    const Results results = step(ones_of(world.rank));
    EXPECT_EQ(results["sum"], ir::Literal::from_f32({4}, {3, 3, 3, 3}));
    EXPECT_EQ(results["max"], ir::Literal::from_f32({4}, {4, 4, 4, 4}));
    EXPECT_EQ(results["root"], ir::Literal::from_f32({4}, {4, 4, 4, 4}));
    EXPECT_EQ(results["all"], ir::Literal::from_f32({8}, {1, 1, 1, 1, 2, 2, 2, 2}));
    EXPECT_EQ(results["part"], ir::Literal::from_f32({2}, {3, 3}));
    EXPECT_EQ(results["exchanged"], ir::Literal::from_f32({4}, {1, 1, 2, 2}));
    EXPECT_EQ(results["place"].get_i64(0), world.rank);
  });
}

// With L = sum over the ranks of loss(rank), x of rank r counts in every rank's result.
TEST_P(Collectives, HaveGradients) {
  comm::run_ranks(2, [&](comm::World& world) {
    omp_set_num_threads(1);
    const ir::Mesh mesh = data_mesh(2);
    CompileOptions options;
    options.backend = GetParam();
    Session session({.options = options, .mesh = runtime::make_mesh_context(mesh, world)});
    const auto gradient_of = [&](const auto& function) {
      Compiled step = session.compile([&](const Tensor& x) {
        const Tensor loss = sum(function(x));
        return trace::Outputs{{"loss", loss}, {"g", trace::gradients_of(loss, {x})[0]}};
      });
      return step(ones_of(world.rank))["g"].get(0);
    };
    // 1 on rank 0, 2 on rank 1, in one graph.
    const auto weight = [&](const Tensor& x) {
      return trace::coordinate(x.trace(), mesh, "data").to(ir::DType::kF32) + 1.0;
    };
    // sum^2 on both ranks: 2 * 2 * 3.
    EXPECT_EQ(gradient_of([&](const Tensor& x) {
                const Tensor s = trace::all_reduce(x, mesh, "data");
                return s * s;
              }),
              12);
    // The root's x on both ranks, times 1 + rank: 3 on the root, nothing elsewhere.
    EXPECT_EQ(
        gradient_of([&](const Tensor& x) { return trace::broadcast(x, mesh, "data") * weight(x); }),
        world.rank == 0 ? 3 : 0);
    // Each part is gathered on both ranks, times 1 + rank.
    EXPECT_EQ(gradient_of(
                  [&](const Tensor& x) { return trace::all_gather(x, mesh, "data") * weight(x); }),
              3);
    // Element 0 goes to rank 0's part, times 1.
    EXPECT_EQ(gradient_of([&](const Tensor& x) {
                return trace::reduce_scatter(x, mesh, "data") * weight(x);
              }),
              1);
    // Element 0 goes to rank 0, of which it is then squared and counted once.
    EXPECT_EQ(gradient_of([&](const Tensor& x) {
                const Tensor y = trace::all_to_all(x, mesh, "data");
                return y * y * weight(x);
              }),
              2 * (1 + world.rank));
  });
}

// What is left of a part of a batch of [12, 5], and of a state that all ranks have.
std::vector<ir::Literal> dropped(int64_t num_ranks,
                                 std::shared_ptr<const runtime::MeshContext> mesh) {
  Session session({.seed = 4, .mesh = std::move(mesh)});
  const trace::State weight("weight", {ir::DType::kF32, {7, 3}}, ir::StateRole::kBuffer,
                            trace::Initializer::constant(1));
  Compiled step = session.compile([&](const Tensor& x) {
    return trace::Outputs{{"x", trace::dropout(x * 2.0, 0.5)},
                          {"weight", trace::dropout(x.trace().read(weight), 0.5)}};
  });
  const ir::TensorType type = {ir::DType::kF32, {12 / num_ranks, 5}};
  return step(ir::Literal::from(type, [](int64_t) { return 1; })).values;
}

TEST(Distributed, DropoutIsThatOfOneRank) {
  const std::vector<ir::Literal> one = dropped(1, nullptr);
  double sum = 0;  // of 60 elements that are 4 or 0
  for (int64_t i = 0; i < 60; ++i) sum += one[0].get(i);
  EXPECT_NEAR(sum, 120, 60);
  for (const int num_ranks : {2, 3, 4}) {
    comm::run_ranks(num_ranks, [&](comm::World& world) {
      omp_set_num_threads(1);
      const auto own = dropped(num_ranks, runtime::make_mesh_context(data_mesh(num_ranks), world));
      for (int64_t i = 0; i < own[0].num_elements(); ++i) {
        EXPECT_EQ(own[0].get(i), one[0].get(world.rank * own[0].num_elements() + i)) << i;
      }
      EXPECT_EQ(own[1], one[1]);
    });
  }
}

TEST(Distributed, ARankThatFailsEndsTheStepOfTheOthers) {
  std::mutex mutex;
  std::string message;
  const auto body = [&](comm::World& world) {
    omp_set_num_threads(1);
    const ir::Mesh mesh = data_mesh(2);
    const auto context = runtime::make_mesh_context(mesh, world);
    Session session({.mesh = context});
    Compiled step =
        session.compile([&](const Tensor& x) { return trace::all_reduce(x * 2.0, mesh, "data"); });
    EXPECT_EQ(step(ones_of(world.rank)).values[0].get(0), 6);
    if (world.rank == 1) throw_user_error("rank 1 gives up");
    try {
      step(ones_of(world.rank));
    } catch (const CommError& error) {
      const std::lock_guard lock(mutex);
      message = error.what();
      throw;
    }
  };
  EXPECT_THROW(comm::run_ranks(2, body), UserError);
  EXPECT_THAT(message, HasSubstr("all_reduce"));
}

// Copies that would drift apart unseen.
TEST(Distributed, AGradientThatIsNotReducedIsRefusedBeforeTheFirstStep) {
  comm::run_ranks(2, [&](comm::World& world) {
    omp_set_num_threads(1);
    const ir::Mesh mesh = data_mesh(2);
    const auto context = runtime::make_mesh_context(mesh, world);
    const auto train_step = [&](const std::string& verify, bool reduces_own) {
      nn::MLP model({.vocab_size = kVocabulary, .block_size = kBlock, .n_embd = 8});
      optim::SGD optimizer(model.parameters(), {.learning_rate = optim::Schedule::constant(1e-2)});
      CompileOptions options;
      options.verify = verify;
      Session session({.options = options, .mesh = context});
      Compiled step = session.compile([&](const Tensor& x, const Tensor& y) {
        const Tensor loss = model.loss(x, y);
        const trace::Gradients gradients = loss.backward();
        trace::Gradients own(gradients.trace().shared_from_this());
        for (const trace::State& each : gradients.parameters()) {
          own.add(each,
                  reduces_own ? trace::all_mean(gradients[each], mesh, "data") : gradients[each]);
        }
        optimizer.step(own);
        return loss;
      });
      step(tokens(0, world.rank * 4, 4, kBlock), tokens(1, world.rank * 4, 4, 1));
    };
    const CompileOptions standard;
    train_step(standard.verify, true);
    train_step("off", false);
    try {
      train_step(standard.verify, false);
      ADD_FAILURE() << "no error";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("the ranks of axis 'data' would update '"));
      EXPECT_THAT(error.what(), HasSubstr("nn::replicate(loss.backward(), mesh, \"data\")"));
    }
  });
}

TEST(Distributed, CollectivesNeedTheirMesh) {
  const ir::Mesh mesh({{"data", 2}});
  const auto message_of = [&](const auto& function) {
    try {
      compile(function)(ones_of(0));
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message_of([&](const Tensor& x) { return trace::all_reduce(x, mesh, "data"); }),
              HasSubstr("runs all_reduce over axis 'data' of 2 ranks, but has no mesh"));
  EXPECT_THAT(message_of([&](const Tensor& x) { return trace::all_reduce(x, mesh, "tensor"); }),
              HasSubstr("'tensor' is not an axis of mesh(data=2): use 'data'"));
}

}  // namespace
}  // namespace monograph::session
