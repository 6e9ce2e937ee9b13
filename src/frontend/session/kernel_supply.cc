#include "frontend/session/kernel_supply.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>

#include "base/error.h"
#include "codegen/cache/directory.h"
#include "codegen/cache/maintenance.h"
#include "frontend/session/agreement.h"
#include "runtime/cpu/eager/vector_kernel.h"

namespace monograph::session {
namespace {

constexpr double kProgressAfterS = 3;
constexpr double kForeverS = 1e9;
constexpr int64_t kAskEvery = 16;  // steps between two rounds among ranks

bool has_collectives(const ir::Program& program) {
  return std::any_of(program.steps.begin(), program.steps.end(), [](const ir::Step& step) {
    return std::holds_alternative<ir::CollectiveStep>(step.work);
  });
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double automatic_timeout(const ir::Program& program, const std::string& cache_directory,
                         const runtime::MeshContext* mesh) {
  constexpr double kLeastS = 5, kUsualKernelS = 0.5;
  double total = 0, count = 0;
  for (const auto& item : codegen::list_cache(cache_directory, false).items) {
    if (item.entry.compile_ns <= 0) continue;
    total += static_cast<double>(item.entry.compile_ns) / 1e9;
    ++count;
  }
  const double each = count == 0 ? kUsualKernelS : total / count;
  double limit = std::max(kLeastS, 3 * each * static_cast<double>(program.kernels.size()));
  if (mesh != nullptr) limit = std::min(limit, static_cast<double>(mesh->timeout.count()) / 3000);
  return limit;
}

KernelSupply::KernelSupply(const ir::Program& program, CompileKernels compile,
                           const CompileOptions& options,
                           std::shared_ptr<const runtime::MeshContext> mesh)
    : program_(program),
      compile_(std::move(compile)),
      options_(options),
      mesh_(std::move(mesh)),
      asks_ranks_(mesh_ != nullptr && mesh_->store != nullptr && mesh_->mesh.num_ranks() > 1 &&
                  (compile_timeout_seconds(options) != 0 || options.suppress_errors) &&
                  has_collectives(program)) {
  thread_ = std::thread([this] { this->compile(); });
  try {
    double limit = compile_timeout_seconds(options_);
    if (limit < 0) {
      const auto folder = codegen::cache_directory(options_.cache_dir);
      limit = automatic_timeout(program_, folder.string(), mesh_.get());
    }
    const Progress progress = agreed(wait(limit == 0 ? kForeverS : limit));
    progress == Progress::kReady ? take() : fall_back(progress);
  } catch (...) {
    cancelled_ = true;
    thread_.join();
    throw;
  }
}

KernelSupply::~KernelSupply() {
  cancelled_ = true;
  thread_.join();
}

// In a thread of its own.
void KernelSupply::compile() {
  codegen::CompiledKernels result;
  std::exception_ptr error;
  try {
    result = compile_({.compiler = options_.compiler,
                       .cache_directory = options_.cache_dir,
                       .cancelled = &cancelled_});
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  result_ = std::move(result);
  error_ = error;
  progress_ = error ? Progress::kFailed : Progress::kReady;
  changed_.notify_all();
}

KernelSupply::Progress KernelSupply::wait(double seconds) {
  std::unique_lock lock(mutex_);
  const auto is_over = [&] { return progress_ != Progress::kRunning; };
  for (double shown = kProgressAfterS; seconds > 0; shown *= 2) {
    const double now = seconds_since(began_);
    const std::chrono::duration<double> next(std::min(shown, seconds) - now);
    if (changed_.wait_for(lock, next, is_over) || seconds <= shown) break;
    show_progress(shown);
  }
  return progress_;
}

void KernelSupply::show_progress(double seconds) const {
  fmt::print(stderr, "compiling the {} kernels of '{}' since {:.0f} s\n", program_.kernels.size(),
             options_.name, seconds);
}

// Ready when all ranks are, failed when one has.
KernelSupply::Progress KernelSupply::agreed(Progress own) {
  if (!asks_ranks_) return own;
  static constexpr const char* kWords[] = {"compiling", "ready", "failed"};
  const std::vector<Word> words =
      distinct_words(*mesh_->store, mesh_->rank, static_cast<int>(mesh_->mesh.num_ranks()),
                     "kernels of " + options_.name, kWords[static_cast<int>(own)], mesh_->timeout);
  if (words.size() == 1) return own;
  const bool has_failure = std::any_of(words.begin(), words.end(),
                                       [](const Word& word) { return word.text == "failed"; });
  return has_failure ? Progress::kFailed : Progress::kRunning;
}

std::string KernelSupply::words_of_failure() const {
  const std::lock_guard lock(mutex_);
  if (!error_) return "another rank could not compile";
  try {
    std::rethrow_exception(error_);
  } catch (const std::exception& error) {
    return error.what();
  }
}

void KernelSupply::fall_back(Progress progress) {
  if (progress == Progress::kFailed && !options_.suppress_errors) {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    throw_user_error("'{}' was not compiled on another rank: its error is there", options_.name);
  }
  fallback_.is_final = progress == Progress::kFailed;
  if (!fallback_.cause.empty()) {  // it was a timeout before
    fallback_.cause += "; " + words_of_failure();
    return;
  }
  fallback_.waited_ns = static_cast<int64_t>(seconds_since(began_) * 1e9);
  fallback_.is_timeout = !fallback_.is_final;
  fallback_.cause = fallback_.is_final ? words_of_failure()
                                       : fmt::format("compile timeout after {} ms",
                                                     fallback_.waited_ns / 1'000'000);
  fmt::print(stderr, "warning: '{}' runs without compiled kernels, slower: {}\n", options_.name,
             fallback_.cause);
}

void KernelSupply::take() {
  const std::lock_guard lock(mutex_);
  compiled_ = std::move(result_);
  if (asks_ranks_) {
    const Statement statement{
        {{"compiler of kernels", compiled_.compiler}, {"processor", compiled_.machine}}, {}, ""};
    agree(*mesh_->store, mesh_->rank, static_cast<int>(mesh_->mesh.num_ranks()),
          "kernels of " + options_.name, statement, mesh_->timeout);
  }
  if (fallback_.cause.empty()) return;
  fallback_.swapped_after_ns = static_cast<int64_t>(seconds_since(began_) * 1e9);
  fmt::print(
      stderr, "'{}' runs its compiled kernels from now on: compiling took {:.1f} s, {} steps\n",
      options_.name, static_cast<double>(fallback_.swapped_after_ns) / 1e9, fallback_.num_steps);
}

// Ranks ask each other in the same steps: 1, 2, 4, 8, 16 and then every 16.
bool KernelSupply::is_time_to_ask() const {
  const int64_t step = fallback_.num_steps;
  return !asks_ranks_ || step % kAskEvery == 0 ||
         (step < kAskEvery && std::has_single_bit(static_cast<uint64_t>(step)));
}

bool KernelSupply::update() {
  const bool is_waiting = is_eager() && !fallback_.is_final;
  if (is_waiting && fallback_.num_steps > 0 && is_time_to_ask()) {
    const Progress progress = agreed(wait(0));
    if (progress == Progress::kReady) {
      take();
      return true;
    }
    if (progress == Progress::kFailed) fall_back(progress);
  }
  if (is_eager()) ++fallback_.num_steps;
  return false;
}

std::vector<runtime::Kernel> eager_kernels(const std::vector<ir::Loop>& loops) {
  std::vector<runtime::Kernel> kernels;
  for (const ir::Loop& loop : loops) {
    kernels.push_back([kernel = std::make_shared<const runtime::VectorKernel>(loop)](
                          void* const* arguments) { kernel->run(arguments); });
  }
  return kernels;
}

}  // namespace monograph::session
