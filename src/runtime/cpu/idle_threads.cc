#include "runtime/cpu/idle_threads.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace monograph::runtime {

void limit_spinning(char** arguments) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return;
  setenv("GOMP_SPINCOUNT", "5000", 1);
  execv(program.c_str(), arguments);  // returns only when it fails; then all is as before
}

}  // namespace monograph::runtime
