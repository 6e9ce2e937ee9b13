#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "codegen/cpu/compile.h"
#include "frontend/session/options.h"
#include "ir/program/program.h"
#include "runtime/cpu/executor.h"
#include "runtime/mesh_context.h"

namespace monograph::session {

// How a step came to run without its compiled kernels, and until when.
struct Fallback {
  std::string cause;  // "compile timeout after 2000 ms", "g++ cannot be run: ..."; empty: never
  bool is_timeout = false;
  bool is_final = false;          // compiling failed: it stays so
  int64_t waited_ns = 0;          // until the step began to run eagerly
  int64_t num_steps = 0;          // run eagerly
  int64_t swapped_after_ns = -1;  // since compiling began; -1: not yet
};

using CompileKernels = std::function<codegen::CompiledKernels(const codegen::CompileOptions&)>;

// The kernels of a Program. They are compiled in a thread beside the caller; where that takes
// longer than CompileOptions::compile_timeout, or fails with suppress_errors, the same Program runs
// on VectorKernels: the same memory, library calls and collectives, slower. Compiled kernels take
// their place as soon as all ranks of the mesh have them, at one step.
class KernelSupply {
 public:
  // Returns when the kernels are compiled or will be waited for no longer. `program` must outlive
  // it; `compile` is called once, in that thread; `mesh`: null for one rank. Throws what the
  // compiler threw, unless errors are suppressed.
  KernelSupply(const ir::Program& program, CompileKernels compile, const CompileOptions& options,
               std::shared_ptr<const runtime::MeshContext> mesh);
  ~KernelSupply();  // stops compilers that still run
  KernelSupply(const KernelSupply&) = delete;
  KernelSupply& operator=(const KernelSupply&) = delete;

  // Before each step, on all ranks: takes the compiled kernels where all have them. True when
  // the kernels to run are others since.
  bool update();
  // The step runs on eager_kernels() now, not on compiled().
  bool is_eager() const { return !fallback_.cause.empty() && fallback_.swapped_after_ns < 0; }
  // Empty until they are taken.
  const codegen::CompiledKernels& compiled() const { return compiled_; }
  const Fallback& fallback() const { return fallback_; }

 private:
  enum class Progress : uint8_t { kRunning, kReady, kFailed };
  void compile();
  Progress wait(double seconds);
  void show_progress(double seconds) const;
  Progress agreed(Progress own);
  void fall_back(Progress progress);
  void take();
  bool is_time_to_ask() const;
  std::string words_of_failure() const;

  const ir::Program& program_;
  const CompileKernels compile_;
  const CompileOptions options_;
  const std::shared_ptr<const runtime::MeshContext> mesh_;
  const bool asks_ranks_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  Fallback fallback_;
  codegen::CompiledKernels compiled_;

  std::atomic<bool> cancelled_ = false;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  Progress progress_ = Progress::kRunning;
  codegen::CompiledKernels result_;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses all else
};

// Kernels that do what these Loops say, without a compiler.
std::vector<runtime::Kernel> eager_kernels(const std::vector<ir::Loop>& loops);

// What compile_timeout=auto stands for: three times what kernels took so far to compile (as the
// cache knows), at least 5 s, at most a third of what collectives wait for each other.
double automatic_timeout(const ir::Program& program, const std::string& cache_directory,
                         const runtime::MeshContext* mesh);

}  // namespace monograph::session
