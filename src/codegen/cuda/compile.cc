#include "codegen/cuda/compile.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <thread>

#include <fmt/ranges.h>

#include "base/error.h"
#include "codegen/cache/kernel_cache.h"
#include "codegen/cuda/prelude.h"
#include "codegen/cuda/render.h"

namespace monograph::codegen::cuda {
namespace {

namespace fs = std::filesystem;

struct Kernel {
  RenderedKernel rendered;
  std::string symbol, source;  // with its Loop as a comment
  KeyParts key;
  std::vector<FunctionUse> functions;
  std::shared_ptr<const std::string> cubin;
  std::string source_path;
  int64_t compile_ns = 0;
  std::exception_ptr error;
};

std::string commented(const std::string& text) {
  std::string result = "// ";
  for (const char c : text.substr(0, text.size() - 1)) {
    result += c;
    if (c == '\n') result += "// ";
  }
  return result + "\n";
}

// The functions' use of the machine as one line each, as the cache keeps it.
std::string note_of(const std::vector<FunctionUse>& functions) {
  std::string note;
  for (const FunctionUse& use : functions) {
    note += fmt::format("Compiling entry function '{}'\n", use.name);
    note += fmt::format("{} bytes stack frame, {} bytes spill stores\n", use.stack_bytes,
                        use.spilled_bytes);
    note += fmt::format("Used {} registers, {} bytes smem\n", use.registers, use.shared_bytes);
  }
  return note;
}

class Compilation {
 public:
  Compilation(std::span<const ir::Loop> loops, const ir::DeviceSpec& device,
              const CompileOptions& options)
      : loops_(loops),
        device_(device),
        cache_(cache_directory(options.cache_directory), {.library = ".cubin", .source = ".cu"}),
        flags_({"--gpu-architecture=" + device.architecture, "--std=c++17", "-default-device",
                "--ptxas-options=-v"}),
        num_jobs_(options.num_jobs > 0 ? options.num_jobs
                                       : std::max(1u, std::thread::hardware_concurrency())) {}

  CompiledKernels run() {
    const auto start = std::chrono::steady_clock::now();
    std::vector<Kernel*> order;
    for (const ir::Loop& loop : loops_) order.push_back(&kernel_of(loop));
    std::vector<Kernel*> missing;
    for (auto& [text, kernel] : kernels_) {
      if (!load_from_cache(kernel)) missing.push_back(&kernel);
    }
    compile(missing);
    for (Kernel* kernel : missing) take(*kernel);
    CompiledKernels result;
    for (const Kernel* kernel : order) {
      result.images.push_back({kernel->cubin, kernel->rendered.launches});
      result.sources.push_back(kernel->source_path);
      result.functions.push_back(kernel->functions);
      result.compile_ns_of.push_back(kernel->compile_ns);
    }
    result.num_distinct = static_cast<int>(kernels_.size());
    result.num_from_cache = result.num_distinct - static_cast<int>(missing.size());
    result.warnings = cache_.warnings();
    result.misses = cache_.misses();
    result.compile_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
    return result;
  }

 private:
  Kernel& kernel_of(const ir::Loop& loop) {
    const std::string text = loop.str();
    const auto [found, is_new] = kernels_.try_emplace(text);
    Kernel& kernel = found->second;
    if (is_new) {
      kernel.symbol = "kernel_" + hash_of(text).hex();
      kernel.rendered = render(loop, kernel.symbol, device_);
      kernel.source = commented(text) + kernel.rendered.source;
      kernel.key = {{"loop", hash_of(text).hex()},
                    {"source", Hasher().add(prelude()).add(kernel.source).finish().hex()},
                    {"compiler", "NVRTC " + nvrtc_.version()},
                    {"flags", fmt::format("{}", fmt::join(flags_, " "))}};
    }
    return kernel;
  }

  bool load_from_cache(Kernel& kernel) {
    const auto entry = cache_.find(kernel.key);
    if (!entry) return false;
    std::optional<std::string> bytes = read_file(entry->library);
    kernel.functions = function_uses(entry->note);
    if (!bytes || !order_functions(kernel)) {
      cache_.discard(kernel.key, "it does not have the functions expected");
      return false;
    }
    kernel.cubin = std::make_shared<const std::string>(std::move(*bytes));
    kernel.source_path = entry->source;
    kernel.compile_ns = entry->compile_ns;
    return true;
  }

  // Longest first, one after the other in each thread.
  void compile(std::vector<Kernel*> missing) {
    std::stable_sort(missing.begin(), missing.end(), [](const Kernel* a, const Kernel* b) {
      return a->source.size() > b->source.size();
    });
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      for (size_t at = next++; at < missing.size(); at = next++) {
        Kernel& kernel = *missing[at];
        try {
          const std::string source = std::string(prelude()) + "\n" + kernel.source;
          const auto start = std::chrono::steady_clock::now();
          Cubin cubin = nvrtc_.compile(source, kernel.symbol + ".cu", flags_);
          kernel.compile_ns =
              std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
          kernel.cubin = std::make_shared<const std::string>(std::move(cubin.bytes));
          kernel.functions = std::move(cubin.functions);
        } catch (...) {
          kernel.error = std::current_exception();
        }
      }
    };
    std::vector<std::thread> threads;
    const size_t count = std::min<size_t>(missing.size(), num_jobs_);
    for (size_t t = 1; t < count; ++t) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    for (const Kernel* kernel : missing) {
      if (kernel->error) std::rethrow_exception(kernel->error);
    }
  }

  // The functions in the order of the launches; false when one is missing.
  static bool order_functions(Kernel& kernel) {
    std::vector<FunctionUse> ordered;
    for (const ir::KernelLaunch& launch : kernel.rendered.launches) {
      for (const FunctionUse& use : kernel.functions) {
        if (use.name == launch.entry) ordered.push_back(use);
      }
    }
    kernel.functions = std::move(ordered);
    return kernel.functions.size() == kernel.rendered.launches.size();
  }

  // NVRTC's log may say nothing of a function: what it uses is then unknown, and shown as 0.
  static void note_unknown_use(Kernel& kernel) {
    kernel.functions.clear();
    for (const ir::KernelLaunch& launch : kernel.rendered.launches) {
      kernel.functions.push_back({launch.entry, 0, 0, 0, 0});
    }
  }

  void take(Kernel& kernel) {
    if (!order_functions(kernel)) note_unknown_use(kernel);
    try {
      store(kernel);
    } catch (const fs::filesystem_error& error) {
      cache_.use_temporary_directory(error.code().message());
      store(kernel);
    }
  }

  void store(Kernel& kernel) {
    const fs::path work = cache_.make_work_directory();
    write_file(work / "kernel.cubin", *kernel.cubin);
    const fs::path library = cache_.add_library(work / "kernel.cubin");
    kernel.source_path = cache_
                             .add(kernel.key, library, kernel.symbol, kernel.source,
                                  kernel.compile_ns, note_of(kernel.functions))
                             .source;
    std::error_code ignored;
    fs::remove_all(work, ignored);
  }

  std::span<const ir::Loop> loops_;
  const ir::DeviceSpec& device_;
  Nvrtc nvrtc_;
  KernelCache cache_;
  std::vector<std::string> flags_;
  int num_jobs_;
  std::map<std::string, Kernel> kernels_;  // by loop text
};

}  // namespace

CompiledKernels compile_loops(std::span<const ir::Loop> loops, const ir::DeviceSpec& device,
                              const CompileOptions& options) {
  check(device.is_cuda(), "CUDA kernels for the device {}", device.name);
  if (loops.empty()) return {};
  return Compilation(loops, device, options).run();
}

}  // namespace monograph::codegen::cuda
