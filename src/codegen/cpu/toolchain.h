#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace monograph::codegen {

// The C++ compiler that generated code goes through, as a program and its arguments.
struct Toolchain {
  std::vector<std::string> command;  // "g++", or "ccache g++"
  std::vector<std::string> flags;
  std::string version;  // first line of --version
  std::string
      machine;  // the processor's name and a hash of its features, and the C library's version
};

// `compiler`: empty: $CXX, else g++. UserError when it cannot be run or is no g++.
// `cancelled`: see run_processes.
Toolchain find_toolchain(const std::string& compiler, const std::atomic<bool>* cancelled = nullptr);

}  // namespace monograph::codegen
