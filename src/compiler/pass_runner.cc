#include "compiler/pass_runner.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>

#include "analysis/validate_ops.h"
#include "base/error.h"
#include "ir/printer.h"
#include "ir/verifier.h"

namespace monograph::compiler {
namespace {

namespace fs = std::filesystem;

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_options(const PassOptions& options, std::span<const PipelineStep> steps) {
  std::vector<std::string> names, required;
  for (const PipelineStep& step : steps) {
    std::vector<std::string>& list = step.is_required ? required : names;
    if (!contains(list, step.name)) list.emplace_back(step.name);
  }
  for (const std::string& name : options.disabled) {
    if (contains(names, name)) continue;
    if (contains(required, name)) {
      throw_user_error(
          "pass '{}' is required by lowering: it cannot be switched off; others can: {}", name,
          fmt::join(names, ", "));
    }
    throw_user_error("no pass is called '{}': use one of {}", name, fmt::join(names, ", "));
  }
  if (options.stop_after < -1) {
    throw_user_error("stop after {} passes: use 0 to {}, or -1 for all", options.stop_after,
                     steps.size());
  }
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file)
    throw_user_error("cannot write {}: give a folder with space to write in", path.string());
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    throw_user_error("cannot make the folder {} for dumps: {}", path.string(), error.message());
  }
}

// One application of a pass; holds the pass to its word.
class Application {
 public:
  Application(const PipelineStep& step, int number, ir::Graph& graph, const PassOptions& options,
              analysis::OpValidator& ops)
      : step_(step), number_(number), graph_(graph), options_(options), ops_(ops) {}

  void apply(passes::PassContext& context) {
    if (!options_.dump_dir.empty()) before_ = graph_.clone();
    record_ = {.name = std::string(step_.name), .application = number_};
    record_.nodes_before = graph_.num_nodes();
    context.set_pass(step_.name);
    const auto start = std::chrono::steady_clock::now();
    record_.changed = step_.run(graph_, context);
    record_.duration_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                              std::chrono::steady_clock::now() - start)
                              .count();
    record_.nodes_after = graph_.num_nodes();
  }

  // `hash`: of the graph, before and then after.
  PassRecord finish(Hash& hash) const {
    if (before_ != nullptr && record_.changed) {
      write_file(dump_path("before"), text(*before_));
      write_file(dump_path("after"), text(graph_));
    }
    const Hash before_hash = std::exchange(hash, graph_.hash());
    check_claim(record_.changed, hash != before_hash);
    if (record_.changed && options_.verify) verify();
    return record_;
  }

  [[noreturn]] void fail(const ir::Graph& graph, const std::string& message) const {
    fs::path path = dump_path("refused");
    if (options_.dump_dir.empty()) {
      path = fs::temp_directory_path() /
             fmt::format("monograph-{}-{}.txt", step_.name, graph.hash().hex());
    }
    write_file(path, text(graph));
    throw_internal_error("pass {} (application {}) {}\nthe graph is in {}", step_.name, number_,
                         message, path.string());
  }

 private:
  static std::string text(const ir::Graph& graph) {
    return ir::to_text(graph, {.provenance = true});
  }

  fs::path dump_path(std::string_view moment) const {
    return fs::path(options_.dump_dir) /
           fmt::format("{:02}.{}.{}.txt", number_, step_.name, moment);
  }

  void check_claim(bool claims_change, bool has_changed) const {
    if (claims_change == has_changed) return;
    fail(graph_, claims_change ? "says that it changed the graph, but has not"
                               : "says that it left the graph unchanged, but has not");
  }

  void verify() const {
    auto violations = ir::verify(graph_, {.dead_nodes = false});
    if (violations.empty()) violations = ops_.run(graph_);
    if (violations.empty()) return;
    fail(graph_, "leaves a graph that is not sound:\n" + to_text(violations));
  }

  const PipelineStep& step_;
  const int number_;
  ir::Graph& graph_;
  const PassOptions& options_;
  analysis::OpValidator& ops_;
  std::unique_ptr<ir::Graph> before_;  // if there are dumps
  PassRecord record_;
};

// Applies the steps one after the other.
class Runner {
 public:
  Runner(ir::Graph& graph, passes::PassContext& context, const PassOptions& options,
         const ir::Graph* given)
      : graph_(graph), context_(context), options_(options), context_given_(context) {
    if (given == nullptr && options.verify) given = (copy_ = graph.clone()).get();
    if (options.verify) given_ = given;
    hash_ = graph.hash();
  }

  PassRecord run(const PipelineStep& step, int number) {
    Application application(step, number, graph_, options_, ops_);
    if (options_.on_begin) options_.on_begin(step.name);
    try {
      application.apply(context_);
    } catch (const InternalError& error) {
      if (given_ == nullptr) throw;
      application.fail(graph_before(), fmt::format("failed: {}", error.what()));
    }
    done_.push_back(&step);
    return application.finish(hash_);
  }

 private:
  // A pass that fails leaves the graph half rewritten: what it was given is made again.
  const ir::Graph& graph_before() {
    if (copy_ == nullptr) copy_ = given_->clone();
    for (const PipelineStep* step : done_) step->run(*copy_, context_given_);
    return *copy_;
  }

  ir::Graph& graph_;
  passes::PassContext& context_;
  const PassOptions& options_;
  const ir::Graph* given_ = nullptr;  // with verify
  std::unique_ptr<ir::Graph> copy_;
  passes::PassContext context_given_;
  std::vector<const PipelineStep*> done_;
  analysis::OpValidator ops_;
  Hash hash_;
};

}  // namespace

std::vector<PassRecord> run_passes(ir::Graph& graph, passes::PassContext& context,
                                   const PassOptions& options, std::span<const PipelineStep> steps,
                                   LineageRecorder* lineage, const ir::Graph* given) {
  check_options(options, steps);
  if (!options.dump_dir.empty()) make_folder(options.dump_dir);
  std::vector<PassRecord> records;
  Runner runner(graph, context, options, given);
  int num_optional = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool stopped = options.stop_after >= 0 && num_optional >= options.stop_after;
    const bool skipped = stopped || contains(options.disabled, steps[i].name);
    if (skipped && !steps[i].is_required) continue;
    if (!steps[i].is_required) ++num_optional;
    if (lineage != nullptr) lineage->begin(graph);
    records.push_back(runner.run(steps[i], static_cast<int>(i)));
    if (lineage != nullptr) lineage->end(graph, records.back().name, records.back().changed);
  }
  return records;
}

}  // namespace monograph::compiler
