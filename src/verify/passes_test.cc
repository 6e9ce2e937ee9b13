// Every pass alone, and all together, on random graphs: the interpreter gives the numbers of
// before.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "compiler/pass_runner.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "runtime/interpreter.h"
#include "verify/random_graph.h"

namespace monograph::verify {
namespace {

struct Numbers {
  std::vector<ir::Literal> outputs;
  runtime::StateMap states;
};

Numbers run(const ir::Graph& graph, uint64_t seed) {
  Numbers numbers;
  numbers.states = random_values(graph.states(), seed + 1);
  numbers.outputs = runtime::interpret(graph, random_values(graph.inputs(), seed), numbers.states);
  return numbers;
}

// Equal up to `tolerance` of the larger one (of 1, when both are small); NaN equals NaN and zeros
// of either sign are equal.
bool is_close(double a, double b, double tolerance) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return std::abs(a - b) <= tolerance * std::max({1.0, std::abs(a), std::abs(b)});
}

std::string difference(const ir::Literal& a, const ir::Literal& b, double tolerance) {
  if (a.type() != b.type()) return a.type().str() + " against " + b.type().str();
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    if (is_close(a.get(i), b.get(i), tolerance)) continue;
    return fmt::format("element {}: {} against {}", i, a.get(i), b.get(i));
  }
  return "";
}

std::string difference(const Numbers& a, const Numbers& b, double tolerance) {
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    const std::string found = difference(a.outputs[i], b.outputs[i], tolerance);
    if (!found.empty()) return fmt::format("output y{}, {}", i, found);
  }
  const std::string found = difference(a.states.at("state"), b.states.at("state"), tolerance);
  return found.empty() ? "" : "the state, " + found;
}

// Runs the steps on a copy; returns whether they changed it. A failure prints both graphs.
bool expect_same_numbers(const ir::Graph& graph, const Numbers& expected, uint64_t seed,
                         std::span<const compiler::PipelineStep> steps,
                         const compiler::PassOptions& options, double tolerance) {
  const auto copy = graph.clone();
  passes::PassContext context;
  compiler::run_passes(*copy, context, options, steps);
  if (copy->hash() == graph.hash()) return false;
  EXPECT_EQ(difference(expected, run(*copy, seed), tolerance), "")
      << "seed " << seed << ", passes from " << steps.front().name << "\n"
      << ir::to_text(graph) << ir::to_text(*copy);
  return true;
}

// Not ops whose results jump where an operand is rounded otherwise, or grow without bound.
bool is_well_conditioned(const ops::OpDef& op) {
  constexpr std::string_view kIllConditioned[] = {"eq",  "ne",      "lt",     "le",   "gt",
                                                  "ge",  "convert", "argmax", "div",  "reciprocal",
                                                  "log", "exp",     "rsqrt",  "sqrt", "pow"};
  const auto is_op = [&](std::string_view name) { return name == op.name; };
  return std::none_of(std::begin(kIllConditioned), std::end(kIllConditioned), is_op);
}

const RandomGraphOptions kRoundingOptions{
    .allows_op = is_well_conditioned,
    .allows_dtype = [](ir::DType dtype) { return dtype == ir::DType::kF32; }};

// The passes from here on round otherwise: the ones before keep numbers exactly, save that a sum of
// equal numbers or a power may be rounded once instead of often.
constexpr std::string_view kFirstRoundingPass = "legalize_reductions";

size_t num_exact_steps() {
  const auto steps = compiler::pipeline();
  const auto first = std::find_if(steps.begin(), steps.end(),
                                  [](const auto& step) { return step.name == kFirstRoundingPass; });
  return static_cast<size_t>(first - steps.begin());
}

// Calls visit(graph, its numbers, seed) for each of `count` seeds; graphs whose values an op
// refuses (an id out of range) are left out.
template <typename Visit>
void for_random_graphs(RandomGraphOptions options, int count, Visit visit) {
  int num_refused = 0;
  for (int seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    options.seed = seed;
    const auto graph = random_graph(options);
    Numbers numbers;
    try {
      numbers = run(*graph, seed);
    } catch (const UserError&) {
      ++num_refused;
      continue;
    }
    visit(*graph, numbers, seed);
  }
  EXPECT_LT(num_refused, count / 2);
}

TEST(RandomGraph, IsSoundDiverseAndReproducible) {
  std::set<std::string> ops;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto graph = random_graph({.seed = seed});
    EXPECT_EQ(to_text(ir::verify(*graph, {.dead_nodes = false})), "");
    EXPECT_EQ(graph->hash(), random_graph({.seed = seed})->hash());
    EXPECT_EQ(graph->hash(), ir::parse_graph(ir::to_text(*graph))->hash());
    for (const auto& node : graph->nodes()) ops.insert(node->op());
  }
  EXPECT_GE(ops.size(), 40u);
}

TEST(Passes, SimplifyExactly) {
  const auto steps = compiler::pipeline().first(num_exact_steps());
  std::map<std::string_view, int> num_changed;
  const auto allows = [](const ops::OpDef& op) { return op.name != "sum" && op.name != "pow"; };
  for_random_graphs(
      {.allows_op = allows}, 400, [&](const auto& graph, const auto& numbers, int seed) {
        for (const auto& step : steps) {
          num_changed[step.name] += expect_same_numbers(graph, numbers, seed, {&step, 1}, {}, 0);
        }
        expect_same_numbers(graph, numbers, seed, steps, {}, 0);
      });
  num_changed.erase("remove_redundant_traffic");  // random graphs have no collectives
  for (const auto& [name, count] : num_changed) EXPECT_GE(count, 100) << name;
}

// What each of the later passes needs: the required ones before lowering.
std::unique_ptr<ir::Graph> prepared(const ir::Graph& graph) {
  std::vector<compiler::PipelineStep> steps;
  for (const auto& step : compiler::pipeline()) {
    if (step.is_required && step.name != "isolate") steps.push_back(step);
  }
  auto copy = graph.clone();
  passes::PassContext context;
  compiler::run_passes(*copy, context, {}, steps);
  return copy;
}

TEST(Passes, KeepNumbersUpToRounding) {
  std::map<std::string_view, int> num_changed;
  for_random_graphs(kRoundingOptions, 400, [&](const auto& graph, const auto& numbers, int seed) {
    const auto ready = prepared(graph);
    for (const auto& step : compiler::pipeline()) {
      const ir::Graph& before = step.name == "legalize_reductions" ? graph : *ready;
      num_changed[step.name] += expect_same_numbers(before, numbers, seed, {&step, 1}, {}, 1e-4);
    }
  });
  for (const auto name : {"simplify_algebra", "fuse", "isolate"}) {
    EXPECT_GE(num_changed[name], 100) << name;
  }
  EXPECT_GE(num_changed["legalize_reductions"], 10);
}

TEST(Passes, KeepNumbersTogetherAndWithEachPassOff) {
  for_random_graphs(kRoundingOptions, 100, [&](const auto& graph, const auto& numbers, int seed) {
    const auto steps = compiler::pipeline();
    expect_same_numbers(graph, numbers, seed, steps, {}, 1e-4);
    for (const auto& step : steps) {
      if (step.is_required) continue;
      const compiler::PassOptions options{.disabled = {std::string(step.name)}};
      expect_same_numbers(graph, numbers, seed, steps, options, 1e-4);
    }
  });
}

}  // namespace
}  // namespace monograph::verify
