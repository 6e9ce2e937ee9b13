#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/loop/loop.h"

namespace monograph::codegen {

// A loaded kernel; `arguments`: the addresses of its Loop's buffers, in order, then that of the
// launch's scalars (int64_t), if it takes any.
using KernelFunction = void (*)(void* const* arguments);

struct CompileOptions {
  std::string compiler = {};         // a g++, with arguments if need be; empty: $CXX, else g++
  std::string cache_directory = {};  // see cache_directory()
  int num_jobs = 0;                  // compilers at once; 0: one a core
  const std::atomic<bool>* cancelled = nullptr;  // when true, compilers are killed; UserError then
};

struct CompiledKernels {
  std::vector<KernelFunction> functions;  // one a loop given, in order; equal loops share one
  std::vector<std::string> sources;       // where the source of each lies
  // By kernel: its share, by length of source, of the run of the compiler that made it, now or when
  // it came into the cache.
  std::vector<int64_t> compile_ns_of;
  std::vector<std::shared_ptr<void>> libraries;  // keep the code loaded as long as it is called
  std::string compiler, machine;                 // versions, as in the key of the cache
  int num_distinct = 0;
  int num_from_cache = 0;             // of the distinct ones
  int64_t compile_ns = 0;             // wall time, all of it
  std::vector<std::string> warnings;  // about the cache
  std::map<std::string, int> misses;  // why kernels were not in it, and how many
};

// Compiles and loads Loops: equal ones once, those in the cache not at all, the others by as many
// compilers at once as there are cores. UserError when the compiler is missing, is no g++, or was
// killed, or nothing can be written; InternalError with the compiler's words and where the source
// lies when it refuses the source.
CompiledKernels compile_loops(std::span<const ir::Loop> loops, const CompileOptions& options = {});

}  // namespace monograph::codegen
