#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/process.h"
#include "cli/model_options.h"
#include "cli/training_step.h"
#include "cli/verbs.h"
#include "frontend/nn/optim/optimizer.h"
#include "verify/validate.h"

namespace monograph::cli {
namespace {

trace::Outputs loss_and_gradients(const train::LanguageModel& model, const trace::Tensor& tokens,
                                  const trace::Tensor& targets) {
  const trace::Tensor loss = model.loss(tokens, targets);
  trace::Outputs outputs = {{"loss", loss}};
  const trace::Gradients gradients = loss.backward();
  for (const trace::Parameter& parameter : gradients.parameters()) {
    outputs.emplace_back("grad." + parameter.name(), gradients[parameter]);
  }
  return outputs;
}

void print_tables(const verify::Validation& validation) {
  fmt::print("\n{:<36} {:<16} {:<16} {:>6} {:>6}  {}\n", "parameter", "type", "gradient", "first",
             "last", "used in");
  for (const verify::ParameterRow& row : validation.parameters) {
    fmt::print("{:<36} {:<16} {:<16} {:>6} {:>6}  {}\n", row.name, row.type.str(),
               row.gradient.empty() ? "none" : row.gradient, row.first_use, row.last_use,
               row.first_scope);
  }
  fmt::print("\n{:<24} {:<10} {:<16} {:>14}\n", "tensors", "expected", "actual", "bytes");
  for (const verify::PlacementRow& row : validation.placements) {
    fmt::print("{:<24} {:<10} {:<16} {:>14}\n", row.tensors, row.expected, row.actual,
               row.num_bytes);
  }
  fmt::print("\nlargest errors of compiled steps\n");
  for (size_t i = 0; i < std::min<size_t>(5, validation.nodes.size()); ++i) {
    const verify::NodeError& each = validation.nodes[i];
    fmt::print("{:>10.1e}  {}:{} {}\n", each.error, each.file, each.line, each.scope);
  }
}

void print(const verify::Validation& validation) {
  for (const verify::Check& check : validation.checks) {
    fmt::print("{:<14}{:<7}{}{:>10.0f} ms\n", check.name, check.passed ? "ok" : "FAILED",
               fmt::format("{:<76}", check.finding), static_cast<double>(check.ns) / 1e6);
    for (const std::string& failure : check.failures) fmt::print("    {}\n", failure);
  }
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
                                  {"first_use", row.first_use},
                                  {"last_use", row.last_use}});
  }
  for (const verify::PlacementRow& row : validation.placements) {
    json["placements"].push_back({{"tensors", row.tensors},
                                  {"expected", row.expected},
                                  {"actual", row.actual},
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
  config.batch = 2;
  config.block = 16;
  verify::Subject subject;
  bool json = false, tables = false, digest_only = false;
  Arguments arguments(
      "monograph validate",
      "checks a model's training step: structure, gradients, kernels, repeatability");
  add_model_options(arguments, config, /*takes_images=*/false);
  add_compile_options(arguments, subject.options);
  arguments.option("seed", &subject.seed, "of weights and dropout");
  arguments.option("tables", &tables, "print parameters with their gradients, and placements");
  arguments.option("digest", &digest_only, "print the digest of two steps and nothing else");
  arguments.option("json", &json, "print everything as JSON");
  if (!arguments.parse(args)) return 0;

  const auto model = train::make_language_model(config);
  optim::AdamW optimizer(model->module().parameters(),
                         {.learning_rate = optim::Schedule::constant(1e-3), .max_norm = 1.0});
  subject.inputs = token_inputs(model->input_types());
  subject.step =
      session::traced_function([&](const trace::Tensor& tokens, const trace::Tensor& targets) {
        const trace::Tensor loss = model->loss(tokens, targets);
        optimizer.step(loss.backward());
        return loss;
      });
  subject.gradients =
      session::traced_function([&](const trace::Tensor& tokens, const trace::Tensor& targets) {
        return loss_and_gradients(*model, tokens, targets);
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
