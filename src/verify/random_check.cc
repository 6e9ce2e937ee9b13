#include "verify/random_check.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "codegen/cpu/compile.h"
#include "comm/threads/thread_world.h"
#include "compiler/compile.h"
#include "ops/registry.h"
#include "passes/simplify/eliminate_dead_nodes.h"
#include "runtime/cpu/executor.h"
#include "runtime/interpreter.h"
#include "runtime/mesh_context.h"
#include "verify/divergence.h"
#include "verify/float64.h"

namespace monograph::verify {
namespace {

constexpr double kRoundingFactor = 64;
constexpr double kNoise = 1e-7;  // a sum in another order differs by so much
constexpr int kMaxShrinkTries = 80;

struct Numbers {
  std::vector<ir::Literal> outputs;
  runtime::StateMap states;
};

// What each rank does; `mesh`: null for one rank.
void on_ranks(int num_ranks,
              const std::function<void(int rank, const runtime::MeshContext* mesh)>& work) {
  if (num_ranks == 1) return work(0, nullptr);
  comm::run_ranks(num_ranks, [&](comm::World& world) {
    const auto mesh = runtime::make_mesh_context(ir::Mesh({{"data", num_ranks}}), world);
    work(world.rank, mesh.get());
  });
}

Numbers interpreted(const ir::Graph& graph, const runtime::InputMap& inputs,
                    runtime::StateMap states, const runtime::MeshContext* mesh) {
  Numbers numbers{{}, std::move(states)};
  numbers.outputs = runtime::interpret(graph, inputs, numbers.states, mesh);
  return numbers;
}

// The updated states come as outputs, behind the graph's own.
Numbers interpreted_in_float64(const ir::Graph& graph, double noise,
                               const runtime::InputMap& inputs, const runtime::StateMap& states,
                               const runtime::MeshContext* mesh) {
  runtime::InputMap wide_inputs;
  runtime::StateMap wide_states;
  for (const auto& [name, value] : inputs) wide_inputs[name] = in_float64(value);
  for (const auto& [name, value] : states) wide_states[name] = in_float64(value);
  const std::unique_ptr<ir::Graph> all = graph.clone();
  for (const ir::Graph::Update& update : all->updates()) {
    all->add_output("update of " + update.state->name(), update.next);
  }
  Numbers numbers =
      interpreted(*in_float64(*all, noise), wide_inputs, std::move(wide_states), mesh);
  const size_t num_outputs = graph.outputs().size();
  for (size_t i = num_outputs; i < numbers.outputs.size(); ++i) {
    numbers.states[all->updates()[i - num_outputs].state->name()] = numbers.outputs[i];
  }
  numbers.outputs.resize(num_outputs);
  return numbers;
}

// The widest of the dtypes that the graph rounds to on the way counts.
double tolerance_of_graph(const ir::Graph& graph, ir::DType result) {
  double tolerance = tolerance_of(result);
  for (const auto& node : graph.nodes()) {
    for (const ir::TensorType& type : node->types()) {
      tolerance = std::max(tolerance, tolerance_of(type.dtype));
    }
  }
  return ir::is_floating(result) ? tolerance : 0;
}

// `exact`: in float64, without and with noise.
std::string difference(const ir::Literal& found, const ir::Literal& expected,
                       std::span<const ir::Literal* const> exact, double tolerance) {
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    const double a = found.get(i), b = expected.get(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    bool is_finite = std::isfinite(b);
    double rounding = 0;
    for (const ir::Literal* each : exact) {
      is_finite = is_finite && std::isfinite(each->get(i));
      rounding = std::max(rounding, std::abs(b - each->get(i)));
    }
    if (!is_finite) continue;                       // overflow is rounding's to decide
    if (tolerance == 0 && rounding != 0) continue;  // a number that rounding decides
    const double allowed = tolerance * std::max(1.0, std::abs(b)) + kRoundingFactor * rounding;
    if (std::abs(a - b) <= allowed) continue;
    return fmt::format("element {}: {} against {}, allowed {:.1g}", i, a, b, allowed);
  }
  return "";
}

// What one rank gives, and should get.
struct RankCase {
  runtime::InputMap inputs;
  runtime::StateMap states;
  Numbers expected;
  std::vector<Numbers> exact;

  std::string compare(const ir::Graph& graph, const Numbers& found) const {
    std::vector<const ir::Literal*> known;
    for (size_t i = 0; i < expected.outputs.size(); ++i) {
      known.clear();
      for (const Numbers& each : exact) known.push_back(&each.outputs[i]);
      const double tolerance = tolerance_of_graph(graph, expected.outputs[i].type().dtype);
      const std::string what = difference(found.outputs[i], expected.outputs[i], known, tolerance);
      if (!what.empty()) return fmt::format("output {}, {}", graph.outputs()[i].name, what);
    }
    for (const auto& [name, value] : expected.states) {
      known.clear();
      for (const Numbers& each : exact) known.push_back(&each.states.at(name));
      const double tolerance = tolerance_of_graph(graph, value.type().dtype);
      const std::string what = difference(found.states.at(name), value, known, tolerance);
      if (!what.empty()) return fmt::format("state {}, {}", name, what);
    }
    return "";
  }
};

// One graph, its values, and what it should give.
struct Case {
  uint64_t seed = 0;
  std::unique_ptr<ir::Graph> graph;
  std::vector<RankCase> ranks;

  // UserError when an op refuses the values, CommError when it does so on one rank only.
  Case(uint64_t at_seed, int num_ranks, std::unique_ptr<ir::Graph> made)
      : seed(at_seed), graph(std::move(made)), ranks(num_ranks) {
    on_ranks(num_ranks, [&](int rank, const runtime::MeshContext* mesh) {
      RankCase& own = ranks[rank];
      own.inputs = random_values(graph->inputs(), seed, rank);
      own.states = random_values(graph->states(), seed + 1);
      own.expected = interpreted(*graph, own.inputs, own.states, mesh);
      for (const double noise : {0.0, kNoise, -kNoise}) {
        own.exact.push_back(interpreted_in_float64(*graph, noise, own.inputs, own.states, mesh));
      }
    });
  }
};

struct Attempt {
  const Case* subject = nullptr;
  std::string pass_off;
  compiler::Compilation compilation;
};

Attempt compile(const Case& subject, const std::string& pass_off) {
  passes::StateLayout layout;
  compiler::PassOptions options;
  if (!pass_off.empty()) options.disabled = {pass_off};
  try {
    return {&subject, pass_off, compiler::compile(*subject.graph, layout, options)};
  } catch (const InternalError& error) {
    throw InternalError(
        fmt::format("seed {}, without pass '{}': {}", subject.seed, pass_off, error.what()));
  }
}

Numbers run(const Attempt& attempt, std::span<const runtime::Kernel> kernels, int rank,
            const runtime::MeshContext* mesh) {
  const ir::Program& program = attempt.compilation.program;
  const RankCase& given = attempt.subject->ranks[rank];
  runtime::Executor executor(program, {kernels.begin(), kernels.end()}, {}, mesh);
  for (const auto& input : program.inputs) {
    executor.set_input(input.name, given.inputs.at(input.name));
  }
  for (const auto& state : program.states) {
    executor.write_state(state.name, given.states.at(state.name));
  }
  executor.run();
  Numbers numbers{{}, given.states};
  for (const auto& output : attempt.subject->graph->outputs()) {
    numbers.outputs.push_back(executor.output(output.name));
  }
  for (const auto& state : program.states) {
    numbers.states.at(state.name) = executor.read_state(state.name);
  }
  return numbers;
}

// Compiles all attempts' kernels together and runs each: the first that differs.
std::optional<RandomFailure> compare(std::span<const Attempt> attempts, const KernelMaker& make) {
  if (attempts.empty()) return std::nullopt;
  std::vector<ir::Loop> loops;
  for (const Attempt& attempt : attempts) {
    const auto& kernels = attempt.compilation.program.kernels;
    loops.insert(loops.end(), kernels.begin(), kernels.end());
  }
  const std::vector<runtime::Kernel> functions = make(loops);
  const auto num_ranks = static_cast<int>(attempts[0].subject->ranks.size());
  std::vector<std::vector<std::string>> differences(num_ranks);  // by rank and attempt
  on_ranks(num_ranks, [&](int rank, const runtime::MeshContext* mesh) {
    size_t first = 0;
    for (const Attempt& attempt : attempts) {
      const size_t count = attempt.compilation.program.kernels.size();
      const Numbers found = run(attempt, std::span(functions).subspan(first, count), rank, mesh);
      first += count;
      const Case& subject = *attempt.subject;
      differences[rank].push_back(subject.ranks[rank].compare(*subject.graph, found));
    }
  });
  for (size_t i = 0; i < attempts.size(); ++i) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      std::string& what = differences[rank][i];
      if (what.empty()) continue;
      if (num_ranks > 1) what = fmt::format("rank {}: {}", rank, what);
      return RandomFailure{attempts[i].subject->seed, attempts[i].pass_off, what, nullptr};
    }
  }
  return std::nullopt;
}

// Makes a failing graph smaller.
class Shrinker {
 public:
  Shrinker(const Case& failing, RandomFailure& failure, const KernelMaker& make)
      : failure_(failure),
        make_(make),
        num_ranks_(static_cast<int>(failing.ranks.size())),
        graph_(failing.graph->clone()) {}

  void run() {
    while (graph_->outputs().size() > 1 && drop_outputs()) continue;
    for (int i = graph_->num_nodes() - 1; i >= 0; --i) {
      if (i < graph_->num_nodes()) cut_at(i);
    }
    failure_.graph = std::move(graph_);
  }

 private:
  bool drop_outputs() {
    for (size_t i = 0; i < graph_->outputs().size(); ++i) {
      auto smaller = graph_->clone();
      const std::vector<ir::Graph::Output> outputs = smaller->outputs();
      smaller->clear_outputs();
      for (size_t k = 0; k < outputs.size(); ++k) {
        if (k != i) smaller->add_output(outputs[k].name, outputs[k].value);
      }
      if (keep_if_failing(std::move(smaller))) return true;
    }
    return false;
  }

  // Replaces a node by inputs of its results' types.
  void cut_at(int position) {
    auto smaller = graph_->clone();
    ir::Node* const node = smaller->nodes()[position].get();
    if (node->is_placeholder()) return;
    ir::ValueMap<ir::Value> replacement;
    auto nodes = smaller->take_nodes();
    std::vector<std::unique_ptr<ir::Node>> rest(std::make_move_iterator(nodes.begin() + position),
                                                std::make_move_iterator(nodes.end()));
    nodes.resize(position);
    for (auto& each : nodes) smaller->append(std::move(each));
    for (int i = 0; i < node->num_results(); ++i) {
      const std::string name = fmt::format("cut{}.{}", position, i);
      replacement[node->result(i)] = smaller->add_input(name, node->types()[i])->result();
    }
    for (auto& each : rest) smaller->append(std::move(each));
    smaller->substitute(replacement);
    keep_if_failing(std::move(smaller));
  }

  bool keep_if_failing(std::unique_ptr<ir::Graph> smaller) {
    if (++num_tries_ > kMaxShrinkTries) return false;
    passes::PassContext context;
    passes::eliminate_dead_nodes(*smaller, context);
    smaller->renumber();
    if (smaller->num_nodes() >= graph_->num_nodes() &&
        smaller->outputs().size() >= graph_->outputs().size()) {
      return false;
    }
    try {
      const Case again(failure_.seed, num_ranks_, smaller->clone());
      const Attempt attempt = compile(again, failure_.pass_off);
      auto failure = compare({&attempt, 1}, make_);
      if (!failure) return false;
      failure_.difference = failure->difference;
    } catch (const UserError&) {
      return false;
    } catch (const CommError&) {
      return false;
    }
    graph_ = std::move(smaller);
    return true;
  }

  RandomFailure& failure_;
  const KernelMaker& make_;
  const int num_ranks_;
  std::unique_ptr<ir::Graph> graph_;
  int num_tries_ = 0;
};

// Library calls take f32 and f64 on every machine; bf16 products ask for the processor's support.
bool has_bf16_product(const ir::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    return node->num_results() > 0 && !node->is_placeholder() && node->num_operands() > 1 &&
           ops::op_named(node->op()).has(ops::kLibrary) &&
           (node->operand(0).dtype() == ir::DType::kBF16 ||
            node->operand(0).dtype() == ir::DType::kF16);
  });
}

void note_ops(const ir::Graph& graph, std::set<std::string>& ops) {
  for (const auto& node : graph.nodes()) {
    ops.insert(node->op());
    if (node->body() != nullptr) note_ops(*node->body(), ops);
  }
}

// Null where an op refuses the drawn values.
std::unique_ptr<Case> make_case(const RandomCheck& check, uint64_t seed) {
  auto graph = random_graph({.seed = seed,
                             .num_nodes = check.num_nodes,
                             .num_ranks = check.num_ranks > 1 ? check.num_ranks : 0});
  if (graph->outputs().empty() || has_bf16_product(*graph)) return nullptr;
  try {
    return std::make_unique<Case>(seed, check.num_ranks, std::move(graph));
  } catch (const UserError&) {
    return nullptr;
  } catch (const CommError&) {  // another rank's was refused
    return nullptr;
  }
}

std::vector<std::string> passes_to_try(bool each_off) {
  std::vector<std::string> names = {""};
  for (const compiler::PipelineStep& step : compiler::pipeline()) {
    const std::string name(step.name);
    const bool is_known = std::find(names.begin(), names.end(), name) != names.end();
    if (each_off && !step.is_required && !is_known) names.push_back(name);
  }
  return names;
}

}  // namespace

RandomVerdict check_random_graphs(const RandomCheck& check) {
  RandomVerdict verdict;
  std::vector<codegen::CompiledKernels> loaded;
  const KernelMaker own = [&](std::span<const ir::Loop> loops) {
    loaded.push_back(codegen::compile_loops(loops));
    return runtime::as_kernels(loaded.back().functions);
  };
  const KernelMaker& make = check.make_kernels ? check.make_kernels : own;
  const std::vector<std::string> names = passes_to_try(check.passes_off);
  for (int done = 0; done < check.num_graphs && !verdict.failure;) {
    std::vector<std::unique_ptr<Case>> cases;
    std::vector<Attempt> attempts;
    for (int i = 0; i < check.num_at_once && done < check.num_graphs; ++i, ++done) {
      const uint64_t seed = check.first_seed + static_cast<uint64_t>(done);
      auto made = make_case(check, seed);
      if (made == nullptr) {
        ++verdict.num_refused;
        continue;
      }
      cases.push_back(std::move(made));
      note_ops(*cases.back()->graph, verdict.ops);
      for (const std::string& name : names) {
        attempts.push_back(compile(*cases.back(), name));
        note_ops(*attempts.back().compilation.graph, verdict.ops);
      }
    }
    verdict.num_compared += static_cast<int>(cases.size());
    verdict.num_compilations += static_cast<int>(attempts.size());
    loaded.clear();
    verdict.failure = compare(attempts, make);
    if (!verdict.failure) continue;
    for (const auto& each : cases) {
      if (each->seed == verdict.failure->seed) Shrinker(*each, *verdict.failure, make).run();
    }
  }
  return verdict;
}

}  // namespace monograph::verify
