#pragma once

#include <functional>
#include <span>
#include <string>

#include "codegen/cpu/compile.h"

namespace monograph::codegen {

// A kernel to be compiled: what it is, and its C++ text as a function of that name.
struct KernelSource {
  std::string identity;  // equal identities are one kernel
  std::function<std::string(const std::string& symbol)> text;
};

// As compile_loops.
CompiledKernels compile_sources(std::span<const KernelSource> sources,
                                const CompileOptions& options = {});

}  // namespace monograph::codegen
