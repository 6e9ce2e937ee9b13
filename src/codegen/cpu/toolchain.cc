#include "codegen/cpu/toolchain.h"

#include <gnu/libc-version.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/hash.h"
#include "base/process.h"

namespace monograph::codegen {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// The lines of the first processor that say what -march=native means.
std::string machine_text() {
  std::ifstream file("/proc/cpuinfo");
  std::string name = "unknown processor", features;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string value = colon + 2 < line.size() ? line.substr(colon + 2) : "";
    if (line.starts_with("model name")) name = value;
    const bool is_feature = line.starts_with("flags") || line.starts_with("Features") ||
                            line.starts_with("CPU part") || line.starts_with("cpu family") ||
                            line.starts_with("model\t");
    if (is_feature) features += value + ";";
  }
  return fmt::format("{}, features {}, glibc {}", name, hash_of(features).hex(),
                     gnu_get_libc_version());
}

}  // namespace

Toolchain find_toolchain(const std::string& compiler, const std::atomic<bool>* cancelled) {
  const char* const environment = std::getenv("CXX");
  const bool is_set = environment != nullptr && *environment != '\0';
  const std::string text = !compiler.empty() ? compiler : is_set ? environment : "g++";
  Toolchain result;
  result.command = words_of(text);
  if (result.command.empty()) throw_user_error("the compiler is '{}': name a g++", text);
  std::vector<std::string> ask = result.command;
  ask.push_back("--version");
  const ProcessResult answer = run_processes({ask}, cancelled)[0];
  if (!answer.is_found) {
    throw_user_error("the C++ compiler '{}' cannot be run ({}): install g++, or set CXX to one",
                     text, answer.output);
  }
  if (!answer.is_success()) {
    throw_user_error("the C++ compiler '{}' failed at --version ({}): set CXX to a working g++",
                     text, answer.output);
  }
  if (answer.output.find("Free Software Foundation") == std::string::npos) {
    throw_user_error(
        "the C++ compiler '{}' is no g++ (\"{}\"): generated kernels share g++'s OpenMP with the "
        "matrix library; set CXX to a g++",
        text, answer.output.substr(0, answer.output.find('\n')));
  }
  result.version = answer.output.substr(0, answer.output.find('\n'));
  result.flags = words_of(
      "-std=gnu++20 -O2 -ftree-vectorize -fvect-cost-model=dynamic -march=native -fopenmp -fPIC "
      "-shared -fno-math-errno -fno-trapping-math -fno-exceptions -pipe -w "
      // A value has the same bits in whichever kernel it is computed: what contracts depends on
      // what else the kernel does.
      "-ffp-contract=off");
#if defined(__x86_64__)
  result.flags.push_back("-mprefer-vector-width=512");  // g++ 12 otherwise halves it on some
#endif
  result.machine = machine_text();
  return result;
}

}  // namespace monograph::codegen
