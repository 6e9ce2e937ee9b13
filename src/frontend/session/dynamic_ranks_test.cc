// Dynamic sizes over several ranks, which are threads of this process.
#include <gmock/gmock.h>
#include <omp.h>

#include "base/error.h"
#include "comm/threads/thread_world.h"
#include "frontend/session/monograph.h"

namespace monograph::session {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Net : nn::Module {
  nn::Linear fc{*this, "fc", 3, 8};
  nn::Linear out{*this, "out", 8, 2};
};

struct Outcome {
  std::vector<double> losses;
  ir::Literal weight;
  int num_signatures = 0;
  std::vector<std::string> specializations;
};

ir::Literal rows(int64_t first, int64_t count) {
  return ir::Literal::from({ir::DType::kF32, {count, 3}}, [&](int64_t i) {
    return static_cast<double>((first * 3 + i) * 5 % 11) / 4 - 1.2;
  });
}

// How many rows the ranks have in each step: they differ, and never add up to one number.
const std::vector<std::vector<int64_t>> kRows = {{8, 8, 8}, {8, 3, 1}, {2, 16, 5}, {1, 1, 1}};

// Trains on this rank's rows, weighted so that the mean is that over all ranks' rows.
Outcome train(CompileOptions options, const ir::Mesh& mesh, int rank,
              std::shared_ptr<const runtime::MeshContext> context) {
  const int size = static_cast<int>(mesh.num_ranks());
  Net net;
  optim::AdamW optimizer(net.parameters(),
                         {.learning_rate = optim::Schedule::constant(1e-2), .max_norm = 1.0});
  Session session({.seed = 4, .options = std::move(options), .mesh = context});
  Compiled step = session.compile([&](const Tensor& x) {
    const Tensor error = net.out(tanh(net.fc(x))) - 0.5;
    Tensor count = sum(x * 0.0 + 1.0);
    if (context != nullptr) count = trace::all_mean(count, mesh, "data");
    const Tensor loss = sum(error * error) / count;
    optimizer.step(nn::replicate(loss.backward(), mesh));
    return context == nullptr ? loss : trace::all_mean(loss, mesh, "data");
  });
  Outcome outcome;
  for (const std::vector<int64_t>& counts : kRows) {
    int64_t first = 0, all = 0;
    for (int each = 0; each < 3; ++each) {
      if (each < rank) first += counts[each];
      all += counts[each];
    }
    outcome.losses.push_back(
        step(context == nullptr || size == 1 ? rows(0, all) : rows(first, counts[rank])).loss());
  }
  outcome.weight = session.state("fc.weight");
  outcome.num_signatures = step.num_signatures();
  outcome.specializations = step.specializations();
  return outcome;
}

class DynamicRanks : public testing::TestWithParam<std::string> {};

TEST_P(DynamicRanks, RanksWithOtherSizesTrainAsOneDoesOnAllRows) {
  const Outcome one =
      train({.backend = "interpret", .recompile_limit = 10}, ir::Mesh({{"data", 1}}), 0, nullptr);
  const ir::Mesh mesh({{"data", 3}});
  comm::run_ranks(3, [&](comm::World& world) {
    omp_set_num_threads(1);
    CompileOptions options{.backend = GetParam(), .input_names = {"x"}};
    options.dynamic_shapes = {{"x", {{"batch", 1, 16}}}};
    const Outcome outcome =
        train(options, mesh, world.rank, runtime::make_mesh_context(mesh, world));
    EXPECT_EQ(outcome.num_signatures, 1);
    EXPECT_THAT(outcome.specializations, IsEmpty());
    for (size_t i = 0; i < one.losses.size(); ++i) {
      EXPECT_NEAR(outcome.losses[i], one.losses[i], 1e-5) << "step " << i;
    }
    for (int64_t i = 0; i < one.weight.num_elements(); ++i) {
      EXPECT_NEAR(outcome.weight.get(i), one.weight.get(i), 1e-5);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, DynamicRanks, testing::Values("interpret", "cpu"),
                         [](const auto& backend) { return backend.param; });

// Ranks that exchange what has the dynamic size must have one size: the exchange says so.
TEST(DynamicRanks, AnExchangeOfOtherSizesIsRefused) {
  const auto body = [](comm::World& world) {
    omp_set_num_threads(1);
    const ir::Mesh mesh({{"data", 2}});
    Session session(
        {.options = {.input_names = {"x"}, .dynamic_shapes = {{"x", {{"batch", 1, 16}}}}},
         .mesh = runtime::make_mesh_context(mesh, world)});
    Compiled step = session.compile(
        [&](const Tensor& x) { return sum(trace::all_reduce(x * 2.0, mesh, "data")); });
    EXPECT_NEAR(step(rows(0, 4)).loss(), step(rows(0, 4)).loss(), 0);
    step(rows(0, world.rank == 0 ? 4 : 5));
  };
  try {
    comm::run_ranks(2, body);
    FAIL() << "no error";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), HasSubstr("all_reduce"));
    EXPECT_THAT(error.what(), testing::AnyOf(HasSubstr("12"), HasSubstr("15")));
  }
}

}  // namespace
}  // namespace monograph::session
