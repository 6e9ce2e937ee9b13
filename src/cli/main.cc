#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/verbs.h"

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  return monograph::cli::run_command_line(monograph::cli::verbs(), args);
}
