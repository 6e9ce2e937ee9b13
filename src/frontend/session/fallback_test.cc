// Steps that run before, or without, their compiled kernels. Compilers here are scripts around g++.
#include <gmock/gmock.h>
#include <omp.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "comm/threads/thread_world.h"
#include "frontend/session/executable.h"
#include "frontend/session/monograph.h"

namespace monograph::session {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kBlock = 4, kVocabulary = 16, kRows = 12;

ir::Literal tokens(int64_t step, int64_t first, int64_t count, int64_t length) {
  std::vector<int64_t> values;
  for (int64_t row = first; row < first + count; ++row) {
    for (int64_t i = 0; i < length; ++i) values.push_back((step * 7 + row * 5 + i * i * 3) % 16);
  }
  return ir::Literal::from_i64(length == 1 ? ir::Shape{count} : ir::Shape{count, length},
                               std::move(values));
}

// A compiler that does `before` when it is asked to compile.
std::string compiler_that(const fs::path& folder, const std::string& name,
                          const std::string& before) {
  const fs::path path = folder / name;
  std::ofstream(path) << "#!/bin/sh\ncase \"$*\" in *--version*) exec g++ --version;; esac\n"
                      << before << "\nexec g++ \"$@\"\n";
  chmod(path.c_str(), 0755);
  return path.string();
}

struct Outcome {
  std::vector<double> losses;
  Fallback fallback;
  int num_kernels = 0;
};

class FallbackTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "monograph-fallback-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  CompileOptions options(const std::string& compiler, const std::string& timeout, int rank = 0) {
    CompileOptions options;
    options.compiler = compiler;
    options.compile_timeout = timeout;
    options.cache_dir = (folder_ / fmt::format("cache{}", rank)).string();
    options.name = "train_step";
    return options;
  }

  // Trains until `is_over` says so, at most kMostSteps, on this rank's rows.
  template <typename IsOver>
  Outcome train(const CompileOptions& options, IsOver is_over, EventLog* events = nullptr,
                std::shared_ptr<const runtime::MeshContext> context = nullptr) {
    constexpr int kMostSteps = 4000;
    const ir::Mesh mesh = context == nullptr ? ir::Mesh({{"data", 1}}) : context->mesh;
    const int64_t rank = context == nullptr ? 0 : context->rank;
    const int64_t rows = kRows / mesh.num_ranks();
    nn::MLP model({.vocab_size = kVocabulary,
                   .block_size = kBlock,
                   .n_embd = 16,
                   .n_hidden = 24,
                   .n_layer = 2});
    optim::AdamW optimizer(model.parameters(),
                           {.learning_rate = optim::Schedule::constant(1e-2), .max_norm = 1.0});
    Session session({.seed = 3, .options = options, .events = events, .mesh = context});
    Compiled step = session.compile([&](const Tensor& x, const Tensor& y) {
      const Tensor loss = model.loss(x, y);
      optimizer.step(nn::replicate(loss.backward(), mesh));
      return context == nullptr ? loss : trace::all_mean(loss, mesh, "data");
    });
    Outcome outcome;
    for (int i = 0; i < kMostSteps; ++i) {
      const ir::Literal x = tokens(i, rank * rows, rows, kBlock);
      const ir::Literal y = tokens(i + 1, rank * rows, rows, 1);
      outcome.losses.push_back(step(x, y).loss());
      if (const Build* build = step.executable({x.type(), y.type()}).build()) {
        outcome.fallback = build->fallback;
        outcome.num_kernels = static_cast<int>(build->kernels.functions.size());
      }
      if (is_over(outcome)) break;
    }
    return outcome;
  }

  static bool five_steps(const Outcome& outcome) { return outcome.losses.size() == 5; }
  std::vector<double> usual_losses() { return train(options("g++", "0"), five_steps).losses; }

  fs::path folder_;
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-4) << "step " << i;
  }
}

TEST_F(FallbackTest, TrainsWhileTheCompilerWorksAndThenTakesItsKernels) {
  const std::string path = (folder_ / "events").string();
  EventLog events(path, parse_event_levels("info"));
  int after = 0;
  const Outcome outcome = train(
      options(compiler_that(folder_, "slow", "sleep 1"), "0.1"),
      [&](const Outcome& now) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return now.fallback.swapped_after_ns >= 0 && ++after == 3;
      },
      &events);
  EXPECT_TRUE(outcome.fallback.is_timeout);
  EXPECT_THAT(outcome.fallback.cause, HasSubstr("compile timeout after"));
  EXPECT_GE(outcome.fallback.num_steps, 1);
  EXPECT_GT(outcome.fallback.swapped_after_ns, 900'000'000);
  EXPECT_GT(outcome.num_kernels, 0);
  expect_near(outcome.losses, usual_losses());
  const std::string text = text_of(path);
  EXPECT_THAT(text,
              HasSubstr(R"("event":"compile_timeout","frame_key":"train_step#1","graph_hash")"));
  EXPECT_THAT(text, HasSubstr(R"("event":"swap_in","frame_key":"train_step#1")"));
}

TEST_F(FallbackTest, ACompilerThatHangsIsLeftBehindAtTheEnd) {
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome =
      train(options(compiler_that(folder_, "hangs", "sleep 1000"), "0.1"), five_steps);
  EXPECT_TRUE(outcome.fallback.is_timeout);
  EXPECT_EQ(outcome.fallback.num_steps, 5);
  EXPECT_EQ(outcome.num_kernels, 0);
  expect_near(outcome.losses, usual_losses());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(100));
}

TEST_F(FallbackTest, ACompilerThatFailsOrIsMissingIsAWarningIfErrorsAreSuppressed) {
  const std::vector<double> expected = usual_losses();
  for (const std::string& compiler :
       {compiler_that(folder_, "fails", "echo no room >&2; exit 1"), std::string("/no/compiler")}) {
    CompileOptions with = options(compiler, "0");
    EXPECT_ANY_THROW(train(with, five_steps)) << compiler;
    with.suppress_errors = true;
    const Outcome outcome = train(with, five_steps);
    EXPECT_FALSE(outcome.fallback.is_timeout);
    EXPECT_TRUE(outcome.fallback.is_final);
    EXPECT_THAT(outcome.fallback.cause,
                HasSubstr(compiler == "/no/compiler" ? "cannot be run" : "no room"));
    expect_near(outcome.losses, expected);
  }
}

TEST_F(FallbackTest, ATimeoutThatIsNeverReachedChangesNothing) {
  for (const char* timeout : {"auto", "500"}) {
    const Outcome outcome = train(options("g++", timeout), five_steps);
    EXPECT_EQ(outcome.fallback.cause, "") << timeout;
    EXPECT_EQ(outcome.losses, usual_losses());
  }
  EXPECT_THROW(train(options("g++", "soon"), five_steps), UserError);
  EXPECT_THROW(train(options("g++", "-1"), five_steps), UserError);
}

// Sizes of a dynamic dim change while the compiler works, and after.
TEST_F(FallbackTest, AStepOfManySizesRunsBeforeItsKernelsAreThere) {
  const auto function = [](const Tensor& x) { return sum(exp(x - amax(x, {1}, true)) * 3.0, {0}); };
  CompileOptions with = options(compiler_that(folder_, "slow", "sleep 1"), "0.1");
  with.input_names = {"x"};
  with.dynamic_shapes = {{"x", {{"batch", 1, 32}}}};
  Compiled step = compile(function, with);
  Compiled expected = compile(function, {.backend = "interpret", .recompile_limit = 64});
  int num_after = 0, num_before = 0;
  for (int64_t i = 0; num_after < 4; ++i) {
    ASSERT_LT(i, 4000);
    const ir::Literal x = ir::Literal::from({ir::DType::kF32, {1 + i * 7 % 32, 5}}, [&](int64_t k) {
      return static_cast<double>((k + i) % 7) / 4 - 0.6;
    });
    const ir::Literal sums = step(x).values[0], right = expected(x).values[0];
    for (int64_t k = 0; k < 5; ++k) ASSERT_NEAR(sums.get(k), right.get(k), 1e-4) << i;
    const Fallback& fallback = step.executable({x.type()}).build()->fallback;
    ++(fallback.swapped_after_ns < 0 ? num_before : num_after);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GT(num_before, 1);
  EXPECT_EQ(step.num_signatures(), 1);
}

TEST_F(FallbackTest, AStepOfManySizesOutlivesACompilerThatFails) {
  CompileOptions with = options(compiler_that(folder_, "fails", "echo no room >&2; exit 1"), "0");
  with.input_names = {"x"};
  with.dynamic_shapes = {{"x", {{"batch", 1, 32}}}};
  with.suppress_errors = true;
  Compiled step = compile([](const Tensor& x) { return sum(x * 2.0); }, with);
  for (const int64_t size : {32, 1, 9}) {
    EXPECT_EQ(
        step(ir::Literal::from({ir::DType::kF32, {size, 2}}, [](int64_t) { return 1.0; })).loss(),
        4.0 * static_cast<double>(size));
  }
  EXPECT_EQ(step.num_signatures(), 1);
}

bool hang(ir::Graph&, passes::PassContext&) {
  std::this_thread::sleep_for(std::chrono::hours(1));
  return false;
}
bool change_nothing(ir::Graph&, passes::PassContext&) {
  return false;
}
bool fail(ir::Graph&, passes::PassContext&) {
  throw_internal_error("no such luck");
}

// The compiler's pipeline with a pass of ours in the middle.
std::vector<compiler::PipelineStep> pipeline_with(passes::Pass pass, std::string_view name,
                                                  bool is_required = false) {
  const auto known = compiler::pipeline();
  std::vector<compiler::PipelineStep> steps(known.begin(), known.end());
  steps.insert(steps.begin() + 8, {name, pass, "a test", is_required});
  return steps;
}

// Those that lowering can do without are left out; a required one leaves the step to the oracle.
TEST_F(FallbackTest, PassesThatHangOrFailAreLeftOut) {
  const std::vector<double> expected = usual_losses();
  for (const bool is_required : {false, true}) {
    for (const bool hangs : {false, true}) {
      CompileOptions with = options("g++", hangs ? "1" : "0");
      with.pipeline = pipeline_with(hangs ? hang : fail, "planted", is_required);
      with.suppress_errors = !hangs;
      const std::string path = (folder_ / fmt::format("events{}{}", is_required, hangs)).string();
      EventLog events(path, parse_event_levels("info"));
      testing::internal::CaptureStderr();
      const Outcome outcome = train(with, five_steps, &events);
      const std::string warning = testing::internal::GetCapturedStderr();
      const std::string why = hangs ? "pass 'planted' has not ended" : "no such luck";
      EXPECT_THAT(warning, HasSubstr("'train_step' is compiled without most passes: "));
      EXPECT_THAT(warning, HasSubstr(why));
      EXPECT_EQ(warning.find("runs op by op") != warning.npos, is_required);
      EXPECT_THAT(text_of(path),
                  HasSubstr(hangs ? R"("event":"compile_timeout")" : R"("event":"fallback")"));
      EXPECT_THAT(text_of(path), HasSubstr(why));
      expect_near(outcome.losses, expected);
      if (!hangs) {
        EXPECT_EQ(outcome.num_kernels > 0, !is_required);
      }
    }
  }
}

TEST_F(FallbackTest, APassOfTheUserThatHangsIsLeftOut) {
  CompileOptions with = options("g++", "1");
  with.user_passes = {{"endless", hang, "a test"}};
  testing::internal::CaptureStderr();
  const Outcome outcome = train(with, five_steps);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("compiled without its user_passes: compile timeout after 1"));
  expect_near(outcome.losses, usual_losses());
}

TEST_F(FallbackTest, APassThatFailsIsAnErrorIfErrorsAreNotSuppressed) {
  CompileOptions with = options("g++", "60");
  with.pipeline = pipeline_with(fail, "planted");
  EXPECT_THROW(train(with, five_steps), InternalError);
}

// One rank's passes are late: all ranks leave them out, so that they have one Program.
TEST_F(FallbackTest, OneRankWithLatePassesOfTwoHoldsBoth) {
  std::vector<Outcome> outcomes(2);
  comm::run_ranks(2, [&](comm::World& world) {
    omp_set_num_threads(1);
    CompileOptions with = options("g++", "1", world.rank);
    with.pipeline = pipeline_with(world.rank == 1 ? hang : change_nothing, "planted");
    outcomes[world.rank] = train(with, five_steps, nullptr,
                                 runtime::make_mesh_context(ir::Mesh({{"data", 2}}), world));
  });
  EXPECT_EQ(outcomes[0].losses, outcomes[1].losses);
  expect_near(outcomes[0].losses, usual_losses());
}

// One rank's compiler is slow: all begin without compiled kernels, and all take them in one step.
TEST_F(FallbackTest, OneSlowRankOfFourHoldsAllToOneStep) {
  const std::string slow = compiler_that(folder_, "slow", "sleep 1");
  std::vector<Outcome> outcomes(4);
  comm::run_ranks(4, [&](comm::World& world) {
    omp_set_num_threads(1);
    const auto context = runtime::make_mesh_context(ir::Mesh({{"data", 4}}), world);
    // Ranks must not look at each other: they end after the same number of steps of their own.
    int after = 0;
    outcomes[world.rank] = train(
        options(world.rank == 2 ? slow : "g++", "0.3", world.rank),
        [&](const Outcome& now) {
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          return now.fallback.swapped_after_ns >= 0 && ++after == 4;
        },
        nullptr, context);
  });
  for (const Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.fallback.is_timeout);
    EXPECT_GE(outcome.fallback.num_steps, 1);
    EXPECT_EQ(outcome.fallback.num_steps, outcomes[0].fallback.num_steps);
    EXPECT_EQ(outcome.losses, outcomes[0].losses);
  }
  expect_near(outcomes[0].losses, usual_losses());
}

}  // namespace
}  // namespace monograph::session
