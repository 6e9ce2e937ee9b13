#include <cstdio>

#include "base/error.h"
#include "frontend/session/compiled_data.h"
#include "frontend/session/dynamic_executable.h"

// One compilation for many sizes of inputs. See docs/dynamic_shapes.md.
namespace monograph::session {

// The Dims for this call: those declared, or with `dynamic` those that make the last variant hold
// for it too.
DynamicShapes Compiled::Data::dynamic_shapes_of(const Call& call,
                                                std::span<const std::string> names) const {
  if (!options.dynamic_shapes.empty() || !options.dynamic || variants.empty()) {
    return options.dynamic_shapes;
  }
  return widened_shapes(variants.back()->guards, call.facts, names).value_or(DynamicShapes());
}

void Compiled::Data::note_specialization(const DynamicInputs& inputs, const std::string& why) {
  std::string dims;
  for (const ir::DynamicSize& size : inputs.grid.sizes()) {
    dims += fmt::format("{}'{}'", dims.empty() ? "" : ", ", size.name);
  }
  specializations.push_back(fmt::format("dim {} is specialised: {}", dims, why));
  fmt::print(stderr, "warning: '{}' is compiled for each size by itself: {}\n", options.name,
             specializations.back());
}

namespace {

std::string sizes_text(const ir::SizeGrid& grid, const ir::SizeSteps& steps) {
  std::string text;
  const std::vector<int64_t> sizes = grid.sizes_at(steps);
  for (size_t i = 0; i < sizes.size(); ++i) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", grid.sizes()[i].name, sizes[i]);
  }
  return text;
}

}  // namespace

// The function traced at each instance of the grid; empty, and `why`, where it cannot be.
std::vector<std::unique_ptr<Compiled::Variant>> Compiled::Data::trace_instances(
    const Compiled& compiled, const Call& call, const DynamicInputs& inputs, std::string& why) {
  std::vector<std::unique_ptr<Variant>> traced;
  for (const ir::SizeSteps& steps : inputs.grid.instances()) {
    const std::vector<ir::TensorType> types = inputs.types_at(call.facts, steps);
    Call instance{{{}, call.facts.mesh}};
    for (const ir::TensorType& type : types) instance.facts.inputs.push_back({&type});
    try {
      traced.push_back(compiled.trace(instance));
    } catch (const UserError& error) {
      why = fmt::format("at {}: {}", sizes_text(inputs.grid, steps), error.what());
      return {};
    }
    run_user_passes(*traced.back()->graph);
  }
  return traced;
}

// The variant for the sizes of `inputs`; null, and `why`, where the function is not one for all.
std::unique_ptr<Compiled::Variant> Compiled::Data::build_for(const Compiled& compiled,
                                                             const Call& call, DynamicInputs inputs,
                                                             std::string& why) {
  auto traced = trace_instances(compiled, call, inputs, why);
  if (traced.empty()) return nullptr;
  std::vector<const ir::Graph*> graphs;
  for (const auto& each : traced) graphs.push_back(each->graph.get());
  Specialization difference;
  std::optional<GraphFamily> family = GraphFamily::fit(inputs.grid, graphs, difference);
  why = difference.str();
  std::unique_ptr<DynamicExecutable> executable;
  if (family && options.backend == "cpu") {
    executable = make_dynamic_cpu(inputs.grid, graphs, states->cpu(), options, mesh_now(), why);
  } else if (family) {
    executable = make_dynamic_interpreted(states->host(), mesh_now());
  }
  if (executable == nullptr) return nullptr;
  std::unique_ptr<Variant> variant = std::move(traced[0]);
  for (size_t i = 0; i < inputs.guards.size(); ++i) {
    variant->guards.inputs[i].dims = inputs.guards[i].dims;
  }
  variant->guards.num_symbols = static_cast<int>(inputs.grid.sizes().size());
  variant->storage = &states->host();
  if (options.backend == "cpu") variant->storage = &states->cpu();
  variant->parts.resize(1);
  variant->parts[0].segment.graph = variant->graph->clone();
  variant->parts[0].executable = std::move(executable);
  variant->dynamic = std::make_unique<DynamicFunction>(
      DynamicFunction{std::move(inputs), std::move(*family), {}, {}});
  return variant;
}

// Null where this call is compiled for its own sizes. A function may do something else at the
// largest size of a dim, such as read the whole of a table: then that size is one variant, the rest
// another.
std::unique_ptr<Compiled::Variant> Compiled::Data::build_dynamic(const Compiled& compiled,
                                                                 const Call& call) {
  if (!specializations.empty() || !call.journal.empty()) return nullptr;
  std::vector<std::string> names;
  for (size_t i = 0; i < call.facts.inputs.size(); ++i) names.push_back(input_name(i));
  const DynamicShapes shapes = dynamic_shapes_of(call, names);
  std::optional<DynamicInputs> all = dynamic_inputs(shapes, call.facts, names);
  if (!all) return nullptr;
  std::string why;
  if (auto variant = build_for(compiled, call, *all, why)) return variant;
  for (const DynamicShapes& apart : shapes_without_largest(shapes, call.facts, names)) {
    std::optional<DynamicInputs> inputs = dynamic_inputs(apart, call.facts, names);
    std::string unused;
    if (!inputs) continue;
    if (auto variant = build_for(compiled, call, std::move(*inputs), unused)) return variant;
  }
  note_specialization(*all, why);
  return nullptr;
}

// Sizes seen for the first time are traced: only the function itself can say that it does the same
// there. False where it does not.
bool Compiled::Data::set_sizes(const Compiled& compiled, Variant& variant, Call& call) {
  DynamicFunction& dynamic = *variant.dynamic;
  auto& executable = static_cast<DynamicExecutable&>(*variant.parts[0].executable);
  const ir::SizeSteps steps = dynamic.inputs.steps_of(call.facts);
  if (dynamic.known.contains(steps)) {
    executable.set_sizes(steps);
    return true;
  }
  const std::unique_ptr<Variant> traced = compiled.trace(call);
  run_user_passes(*traced->graph);
  const auto difference = dynamic.family.difference(*traced->graph, steps);
  if (difference) {
    dynamic.refused.insert(steps);
    note_specialization(
        dynamic.inputs,
        fmt::format("at {}: {}", sizes_text(dynamic.inputs.grid, steps), difference->str()));
    return false;
  }
  dynamic.known.insert(steps);
  executable.set_sizes(steps, *traced->graph);
  return true;
}

bool Compiled::Variant::serves(const Call& call) const {
  if (!guards.hold(call.facts) || !follows(call.journal)) return false;
  return dynamic == nullptr || !dynamic->refused.contains(dynamic->inputs.steps_of(call.facts));
}

}  // namespace monograph::session
