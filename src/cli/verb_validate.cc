#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/process.h"
#include "cli/model_options.h"
#include "cli/training_step.h"
#include "cli/verbs.h"
#include "frontend/trace/gradients.h"
#include "verify/validate.h"

namespace monograph::cli {
namespace {

trace::Outputs loss_and_gradients(const train::Model& model, const trace::Tensor& inputs,
                                  const trace::Tensor& targets) {
  const trace::Tensor loss = model.loss(inputs, targets);
  trace::Outputs outputs = {{"loss", loss}};
  const trace::Gradients gradients = loss.backward();
  for (const trace::Parameter& parameter : gradients.parameters()) {
    outputs.emplace_back("grad." + parameter.name(), gradients[parameter]);
  }
  return outputs;
}

// Tensors of one kind in one place are one row.
void print_placements(const std::vector<verify::PlacementRow>& rows) {
  struct Group {
    int count = 0;
    int64_t num_bytes = 0;
  };
  std::map<std::vector<std::string>, Group> groups;
  for (const verify::PlacementRow& row : rows) {
    Group& group = groups[{row.kind, row.expected, row.actual, row.segment}];
    ++group.count;
    group.num_bytes += row.num_bytes;
  }
  fmt::print("\n{:<20} {:<9} {:<9} {:<11} {:>12}\n", "tensors", "expected", "actual", "segment",
             "bytes");
  for (const auto& [place, group] : groups) {
    fmt::print("{:<20} {:<9} {:<9} {:<11} {:>12}\n",
               fmt::format("{} {}{}", group.count, place[0], group.count == 1 ? "" : "s"), place[1],
               place[2], place[3], group.num_bytes);
  }
}

void print_tables(const verify::Validation& validation) {
  size_t width = 9;
  for (const verify::ParameterRow& row : validation.parameters) {
    width = std::max(width, row.name.size());
  }
  fmt::print("\n{:<{}} {:<14} {:<14} {:<12} {:<12} {:>6} {:>6}  {}\n", "parameter", width, "type",
             "gradient", "placed", "its gradient", "first", "last", "used in");
  for (const verify::ParameterRow& row : validation.parameters) {
    fmt::print("{:<{}} {:<14} {:<14} {:<12} {:<12} {:>6} {:>6}  {}\n", row.name, width,
               row.type.str(), row.gradient.empty() ? "none" : row.gradient, row.placement,
               row.gradient_placement, fmt::format("%{}", row.first_use),
               fmt::format("%{}", row.last_use), row.first_scope);
  }
  print_placements(validation.placements);
  fmt::print("\nlargest errors of compiled steps\n");
  for (size_t i = 0; i < std::min<size_t>(5, validation.nodes.size()); ++i) {
    const verify::NodeError& each = validation.nodes[i];
    fmt::print("{:>10.1e}  {}:{} {}\n", each.error, each.file, each.line, each.scope);
  }
}

void print(const verify::Validation& validation) {
  size_t num_failed = 0;
  for (const verify::Check& check : validation.checks) {
    num_failed += check.passed ? 0 : 1;
    fmt::print("{:<13} {:<6} {:>6.0f} ms  {}\n", check.name, check.passed ? "ok" : "FAILED",
               static_cast<double>(check.ns) / 1e6, check.finding);
    for (const std::string& failure : check.failures) fmt::print("    {}\n", failure);
  }
  fmt::print("{}: {} of {} checks passed\n", num_failed == 0 ? "valid" : "NOT VALID",
             validation.checks.size() - num_failed, validation.checks.size());
}

std::string to_json(const verify::Validation& validation) {
  nlohmann::ordered_json json = {{"passed", validation.passed()}, {"digest", validation.digest}};
  for (const verify::Check& each : validation.checks) {
    json["checks"].push_back({{"name", each.name},
                              {"passed", each.passed},
                              {"finding", each.finding},
                              {"failures", each.failures},
                              {"ns", each.ns}});
  }
  for (const verify::ParameterRow& row : validation.parameters) {
    json["parameters"].push_back({{"name", row.name},
                                  {"type", row.type.str()},
                                  {"gradient", row.gradient},
                                  {"placement", row.placement},
                                  {"gradient_placement", row.gradient_placement},
                                  {"first_use", row.first_use},
                                  {"last_use", row.last_use},
                                  {"first_scope", row.first_scope},
                                  {"last_scope", row.last_scope}});
  }
  for (const verify::PlacementRow& row : validation.placements) {
    json["placements"].push_back({{"tensor", row.tensor},
                                  {"kind", row.kind},
                                  {"expected", row.expected},
                                  {"actual", row.actual},
                                  {"segment", row.segment},
                                  {"bytes", row.num_bytes}});
  }
  return json.dump(2);
}

// V4: the same two steps in a process of their own.
void check_restart(verify::Validation& validation, std::vector<std::string> args) {
  args.insert(args.begin(), {"/proc/self/exe", "validate"});
  args.push_back("--digest");
  const ProcessResult other = run_processes({args})[0];
  const std::string digest = other.output.substr(0, other.output.find('\n'));
  verify::Check& check = validation.checks.back();
  if (other.is_success() && digest == validation.digest) {
    check.finding += "; after a restart too";
    return;
  }
  check.passed = false;
  check.failures.push_back(
      fmt::format("V4 another process gave {}, this one {}", digest, validation.digest));
}

}  // namespace

int run_validate(std::span<const std::string> args) {
  train::ModelConfig config;
  verify::Subject subject;
  bool json = false, tables = false, digest_only = false;
  Arguments arguments("monograph validate",
                      "checks a model's training step: structure, gradients, kernels, "
                      "repeatability; with 2 rows of "
                      "16 tokens, or 2 images of 32 pixels a side, unless sizes are given");
  add_model_options(arguments, config, /*takes_images=*/true);
  add_compile_options(arguments, subject.options);
  arguments.option("seed", &subject.seed, "of weights and dropout");
  arguments.option("tables", &tables, "print parameters with their gradients, and placements");
  arguments.option("digest", &digest_only, "print the digest of two steps and nothing else");
  arguments.option("json", &json, "print everything as JSON");
  if (!arguments.parse(args)) return 0;

  take_small_sizes(config);
  const auto model = train::make_model(config);
  subject.inputs = step_inputs(*model);
  subject.step = training_step(*model, {});
  subject.gradients =
      session::traced_function([&](const trace::Tensor& inputs, const trace::Tensor& targets) {
        return loss_and_gradients(*model, inputs, targets);
      });
  if (digest_only) {
    fmt::print("{}\n", verify::digest_of(subject));
    return 0;
  }
  verify::Validation validation = verify::validate(subject);
  check_restart(validation, {args.begin(), args.end()});
  if (json) {
    fmt::print("{}\n", to_json(validation));
  } else {
    print(validation);
    if (tables) print_tables(validation);
  }
  return validation.passed() ? 0 : 1;
}

}  // namespace monograph::cli
