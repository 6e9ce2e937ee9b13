#include "codegen/cpu/compile.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/process.h"
#include "codegen/cache/kernel_cache.h"
#include "codegen/cpu/kernel_source.h"
#include "codegen/cpu/prelude.h"
#include "codegen/cpu/render.h"
#include "codegen/cpu/toolchain.h"

namespace monograph::codegen {
namespace {

namespace fs = std::filesystem;

struct Kernel {
  std::string symbol;
  std::string source;  // the function, after its Loop as a comment where it has one
  KeyParts key;
  KernelFunction function = nullptr;
  std::string source_path;
  int64_t compile_ns = 0;
};

struct Unit {  // one run of the compiler
  std::vector<Kernel*> kernels;
  size_t num_bytes = 0;
  fs::path source, library;
};

std::string commented(const std::string& text) {
  std::string result = "// ";
  for (const char c : text.substr(0, text.size() - 1)) {
    result += c;
    if (c == '\n') result += "// ";
  }
  return result + "\n";
}

bool is_disk_trouble(const std::string& output) {
  return output.find("No space left on device") != std::string::npos ||
         output.find("File too large") != std::string::npos ||
         output.find("Read-only file system") != std::string::npos ||
         output.find("Disk quota exceeded") != std::string::npos;
}

class Compilation {
 public:
  Compilation(std::span<const KernelSource> sources, const CompileOptions& options)
      : sources_(sources),
        toolchain_(find_toolchain(options.compiler, options.cancelled)),
        cache_(cache_directory(options.cache_directory)),
        cancelled_(options.cancelled),
        num_jobs_(options.num_jobs > 0 ? options.num_jobs
                                       : std::max(1u, std::thread::hardware_concurrency())) {}

  CompiledKernels run() {
    const auto start = std::chrono::steady_clock::now();
    std::vector<Kernel*> order;
    for (const KernelSource& source : sources_) order.push_back(&kernel_of(source));
    std::vector<Kernel*> missing;
    for (auto& [text, kernel] : kernels_) {
      if (!load_from_cache(kernel)) missing.push_back(&kernel);
    }
    if (!missing.empty()) compile(missing);
    for (const Kernel* kernel : order) {
      result_.functions.push_back(kernel->function);
      result_.sources.push_back(kernel->source_path);
      result_.compile_ns_of.push_back(kernel->compile_ns);
    }
    result_.compiler = toolchain_.version;
    result_.machine = toolchain_.machine;
    result_.num_distinct = static_cast<int>(kernels_.size());
    result_.num_from_cache = result_.num_distinct - static_cast<int>(missing.size());
    result_.warnings = cache_.warnings();
    result_.misses = cache_.misses();
    result_.compile_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
    return std::move(result_);
  }

 private:
  Kernel& kernel_of(const KernelSource& source) {
    const auto [found, is_new] = kernels_.try_emplace(source.identity);
    Kernel& kernel = found->second;
    if (is_new) {
      kernel.symbol = "kernel_" + hash_of(source.identity).hex();
      kernel.source = source.text(kernel.symbol);
      // Of the source too, so that no change of the renderer can be forgotten.
      kernel.key = {{"loop", hash_of(source.identity).hex()},
                    {"source", Hasher().add(prelude()).add(kernel.source).finish().hex()},
                    {"compiler", toolchain_.version},
                    {"command", fmt::format("{}", fmt::join(toolchain_.command, " "))},
                    {"flags", fmt::format("{}", fmt::join(toolchain_.flags, " "))},
                    {"machine", toolchain_.machine}};
    }
    return kernel;
  }

  bool load_from_cache(Kernel& kernel) {
    const auto entry = cache_.find(kernel.key);
    if (!entry) return false;
    if (entry->symbol == kernel.symbol && load(kernel, entry->library)) {
      kernel.source_path = entry->source;
      kernel.compile_ns = entry->compile_ns;
      return true;
    }
    cache_.discard(kernel.key, "its library cannot be loaded");
    return false;
  }

  bool load(Kernel& kernel, const fs::path& library) {
    // The threads of OpenMP outlive the kernels: unloading it with the last of them would crash.
    static void* const openmp = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NODELETE);
    (void)openmp;
    auto [found, is_new] = loaded_.try_emplace(library.string());
    if (is_new) {
      void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle == nullptr) {
        loaded_.erase(found);
        return false;
      }
      found->second = std::shared_ptr<void>(handle, [](void* h) { dlclose(h); });
      result_.libraries.push_back(found->second);
    }
    void* const symbol = dlsym(found->second.get(), kernel.symbol.c_str());
    kernel.function = reinterpret_cast<KernelFunction>(symbol);
    return symbol != nullptr;
  }

  void compile(const std::vector<Kernel*>& missing) {
    try {
      if (compile_in(cache_.make_work_directory(), missing)) return;
      cache_.use_temporary_directory("the disk is full or read-only");
    } catch (const fs::filesystem_error& error) {
      cache_.use_temporary_directory(error.code().message());
    }
    try {
      if (compile_in(cache_.make_work_directory(), missing)) return;
    } catch (const fs::filesystem_error& error) {
      throw_user_error("compiled kernels cannot be written: {}: free space or set TMPDIR",
                       error.what());
    }
    throw_user_error(
        "the compiler cannot write its files: the disk is full: free space or set "
        "TMPDIR to a folder with space");
  }

  // False when the disk was full.
  bool compile_in(const fs::path& work, const std::vector<Kernel*>& missing) {
    std::vector<Unit> units = split(missing, work);
    std::vector<std::vector<std::string>> commands;
    for (const Unit& unit : units) {
      std::string source(prelude());
      for (const Kernel* kernel : unit.kernels) source += "\n" + kernel->source;
      write_file(unit.source, source);
      std::vector<std::string> command = toolchain_.command;
      command.insert(command.end(), toolchain_.flags.begin(), toolchain_.flags.end());
      for (const std::string& word :
           {std::string("-o"), unit.library.string(), unit.source.string(), std::string("-lm")}) {
        command.push_back(word);
      }
      commands.push_back(std::move(command));
    }
    const std::vector<ProcessResult> results = run_processes(commands, cancelled_);
    for (size_t u = 0; u < units.size(); ++u) {
      if (results[u].is_success()) continue;
      if (!is_disk_trouble(results[u].output)) fail(units[u], results[u]);
      std::error_code ignored;
      fs::remove_all(work, ignored);
      return false;
    }
    for (size_t u = 0; u < units.size(); ++u) take(units[u], results[u].duration_ns);
    std::error_code ignored;
    fs::remove_all(work, ignored);
    return true;
  }

  // Units of about equal length, one a compiler.
  std::vector<Unit> split(std::vector<Kernel*> kernels, const fs::path& work) const {
    std::vector<Unit> units(std::min<size_t>(kernels.size(), num_jobs_));
    for (size_t u = 0; u < units.size(); ++u) {
      units[u].source = work / fmt::format("unit{}.cc", u);
      units[u].library = work / fmt::format("unit{}.so", u);
    }
    std::stable_sort(kernels.begin(), kernels.end(), [](const Kernel* a, const Kernel* b) {
      return a->source.size() > b->source.size();
    });
    for (Kernel* kernel : kernels) {
      Unit& least = *std::min_element(units.begin(), units.end(), [](const Unit& a, const Unit& b) {
        return a.num_bytes < b.num_bytes;
      });
      least.kernels.push_back(kernel);
      least.num_bytes += kernel->source.size();
    }
    return units;
  }

  void take(const Unit& unit, int64_t compile_ns) {
    const fs::path library = cache_.add_library(unit.library);
    for (Kernel* kernel : unit.kernels) {
      const double share =
          static_cast<double>(kernel->source.size()) / static_cast<double>(unit.num_bytes);
      kernel->compile_ns = static_cast<int64_t>(share * static_cast<double>(compile_ns));
      const auto entry =
          cache_.add(kernel->key, library, kernel->symbol, kernel->source, kernel->compile_ns);
      kernel->source_path = entry.source;
      if (!load(*kernel, library)) {
        const char* const reason = dlerror();
        throw_internal_error("the compiled kernel {} cannot be loaded: {}; its source is {}",
                             kernel->symbol, reason != nullptr ? reason : "no such symbol",
                             kernel->source_path);
      }
    }
  }

  [[noreturn]] void fail(const Unit& unit, const ProcessResult& result) const {
    const std::string program = fmt::format("{}", fmt::join(toolchain_.command, " "));
    if (!result.is_found || result.exit_status > 128) {
      throw_user_error("the C++ compiler '{}' {}: {}", program,
                       result.is_found ? fmt::format("was killed by signal {} (out of memory?)",
                                                     result.exit_status - 128)
                                       : "cannot be run",
                       result.output);
    }
    throw_internal_error("'{}' refused generated code, exit status {}; the source is {}:\n{}",
                         program, result.exit_status, unit.source.string(), result.output);
  }

  std::span<const KernelSource> sources_;
  Toolchain toolchain_;
  KernelCache cache_;
  const std::atomic<bool>* const cancelled_;
  int num_jobs_;
  std::map<std::string, Kernel> kernels_;  // by loop text
  std::map<std::string, std::shared_ptr<void>> loaded_;
  CompiledKernels result_;
};

}  // namespace

CompiledKernels compile_sources(std::span<const KernelSource> sources,
                                const CompileOptions& options) {
  if (sources.empty()) return {};
  return Compilation(sources, options).run();
}

CompiledKernels compile_loops(std::span<const ir::Loop> loops, const CompileOptions& options) {
  std::vector<KernelSource> sources;
  for (const ir::Loop& loop : loops) {
    std::string identity = loop.str();
    sources.push_back({identity, [&loop, identity](const std::string& symbol) {
                         return commented(identity) + render(loop, symbol);
                       }});
  }
  return compile_sources(sources, options);
}

}  // namespace monograph::codegen
