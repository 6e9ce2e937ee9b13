#include "frontend/session/pass_fuse.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <thread>

#include "base/error.h"
#include "frontend/session/agreement.h"
#include "frontend/session/executable.h"
#include "frontend/session/statement.h"

namespace monograph::session {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kAutomaticS = 30;  // passes of large models take less than a second

double limit_of(const CompileOptions& options, const runtime::MeshContext* mesh) {
  const double seconds = compile_timeout_seconds(options);
  if (seconds != kAutomaticTimeout) return seconds;
  if (mesh == nullptr) return kAutomaticS;
  return std::min(kAutomaticS, static_cast<double>(mesh->timeout.count()) / 3000);
}

// How work in a thread of its own ended, or that it has not.
struct Outcome {
  std::mutex mutex;
  std::condition_variable changed;
  bool has_ended = false;
  std::exception_ptr error;
};

std::shared_ptr<Outcome> run_in_thread(std::function<void()> work) {
  auto outcome = std::make_shared<Outcome>();
  std::thread([outcome, work = std::move(work)] {
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(outcome->mutex);
    outcome->error = error;
    outcome->has_ended = true;
    outcome->changed.notify_all();
  }).detach();
  return outcome;
}

std::string words_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& each) {
    return each.what();
  } catch (...) {
    return "a pass threw what is no exception";
  }
}

// Of the work on this rank, and where ranks are asked, on all: "done", "late", "failed".
std::string agreed(std::string own, const CompileOptions& options,
                   const runtime::MeshContext* mesh) {
  if (mesh == nullptr || mesh->store == nullptr) return own;
  const std::vector<Word> words =
      distinct_words(*mesh->store, mesh->rank, static_cast<int>(mesh->mesh.num_ranks()),
                     "passes of " + options.name, own, mesh->timeout);
  if (words.size() == 1) return own;
  const bool has_failure = std::any_of(words.begin(), words.end(),
                                       [](const Word& word) { return word.text == "failed"; });
  return has_failure ? "failed" : "late";
}

// What a compilation owns while it runs in a thread that may be left behind.
struct Job {
  Job(const ir::Graph& traced, const passes::StateLayout& states, const CompileOptions& given)
      : graph(traced.clone()), layout(states), options(given) {}

  void run(bool is_least) {
    compiler::PassOptions passes = pass_options(options);
    passes.on_begin = [this](std::string_view pass) { progress.begin(pass); };
    const auto steps = pipeline_of(options);
    compiler::MemoryBudget budget = memory_budget(options);
    if (is_least) {
      passes.disabled.clear();
      passes.stop_after = 0;
      budget = {};
    }
    try {
      result = compiler::compile(*graph, layout, passes, budget, steps);
    } catch (const UserError&) {
      refusal = std::current_exception();  // of an option: no fault of the passes
    }
  }

  std::unique_ptr<ir::Graph> graph;
  passes::StateLayout layout;
  CompileOptions options;
  PassProgress progress;
  compiler::Compilation result;
  std::exception_ptr refusal;
};

}  // namespace

bool has_pass_fuse(const CompileOptions& options) {
  return options.suppress_errors || compile_timeout_seconds(options) != 0;
}

Fallback run_passes_within_limits(const CompileOptions& options, const runtime::MeshContext* mesh,
                                  const PassProgress& progress, std::function<void()> work) {
  const double limit = limit_of(options, mesh);
  const auto start = Clock::now();
  std::string state = "done";
  std::exception_ptr error;
  if (limit == 0) {
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
  } else {
    const std::shared_ptr<Outcome> outcome = run_in_thread(std::move(work));
    std::unique_lock lock(outcome->mutex);
    const bool is_in_time = outcome->changed.wait_for(lock, std::chrono::duration<double>(limit),
                                                      [&] { return outcome->has_ended; });
    if (!is_in_time) state = "late";
    error = outcome->error;
  }
  if (error) state = "failed";
  const std::string verdict = agreed(state, options, mesh);
  if (error && !options.suppress_errors) std::rethrow_exception(error);
  if (verdict == "done") return {};
  Fallback fallback;
  fallback.is_timeout = verdict == "late";
  fallback.is_final = true;
  fallback.waited_ns = std::chrono::nanoseconds(Clock::now() - start).count();
  if (error) {
    fallback.cause = words_of(error);
  } else if (state == "late") {
    fallback.cause = fmt::format("compile timeout after {} ms: pass '{}' has not ended",
                                 fallback.waited_ns / 1'000'000, progress.name());
  } else {
    fallback.cause = "the passes of another rank have not ended";
  }
  return fallback;
}

std::optional<compiler::Compilation> compile_within_limits(const ir::Graph& graph,
                                                           passes::StateLayout& layout,
                                                           const CompileOptions& options,
                                                           const runtime::MeshContext* mesh,
                                                           Fallback& fallback) {
  if (!has_pass_fuse(options)) {
    return compiler::compile(graph, layout, pass_options(options), memory_budget(options),
                             pipeline_of(options));
  }
  if (!has_collectives(graph)) mesh = nullptr;
  for (const bool is_least : {false, true}) {
    const auto job = std::make_shared<Job>(graph, layout, options);
    const Fallback outcome = run_passes_within_limits(options, mesh, job->progress,
                                                      [job, is_least] { job->run(is_least); });
    if (outcome.cause.empty()) {
      if (job->refusal) std::rethrow_exception(job->refusal);
      layout = std::move(job->layout);
      return std::move(job->result);
    }
    fmt::print(stderr, "warning: '{}' is compiled {}: {}\n", options.name,
               is_least ? "not at all, and runs op by op" : "without most passes", outcome.cause);
    fallback = outcome;
  }
  return std::nullopt;
}

}  // namespace monograph::session
