#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dynamic_library.h"

namespace monograph::codegen::cuda {

// What the assembler said of one function.
struct FunctionUse {
  std::string name;
  int registers = 0;          // of a thread
  int64_t shared_bytes = 0;   // static, of a block
  int64_t spilled_bytes = 0;  // stores and loads of registers that did not fit
  int64_t stack_bytes = 0;    // arrays that are not in registers
};

struct Cubin {
  std::string bytes;
  std::vector<FunctionUse> functions;
};

// NVIDIA's run-time compiler: CUDA C++ to machine code, with neither a GPU nor a driver. Opened at
// run time; the few functions that we call are declared here, so that no header is needed.
class Nvrtc {
 public:
  // UserError that says where it was looked for when it cannot be opened.
  Nvrtc();
  static bool is_available();

  std::string version() const;  // "13.0"
  const std::string& path() const { return library_.path(); }
  // InternalError with the compiler's words, each with the line it speaks of, when it refuses.
  // Several threads may compile at once.
  Cubin compile(const std::string& source, const std::string& name,
                const std::vector<std::string>& options) const;

 private:
  DynamicLibrary library_;
};

// From the log of "--ptxas-options=-v".
std::vector<FunctionUse> function_uses(const std::string& log);
// The log with the source line below each "name(12): error: ...".
std::string log_with_source(const std::string& log, const std::string& source);

}  // namespace monograph::codegen::cuda
