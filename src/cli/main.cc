#include <csignal>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/verbs.h"
#include "runtime/cpu/idle_threads.h"

int main(int argc, char** argv) {
  monograph::runtime::limit_spinning(argv);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error like a full disk
  const std::vector<std::string> args(argv + 1, argv + argc);
  return monograph::cli::run_command_line(monograph::cli::verbs(), args);
}
