#pragma once

#include <string>
#include <vector>

namespace monograph {

struct ProcessResult {
  int exit_status = 0;   // 128 + signal when killed by one
  bool is_found = true;  // false: there is no such program; exit_status is then 127
  std::string output;    // stdout and stderr, as they came

  bool is_success() const { return is_found && exit_status == 0; }
};

// Runs programs side by side, without a shell, and waits for all of them. A command is the program,
// looked up in PATH, and its arguments. stdin is empty.
std::vector<ProcessResult> run_processes(const std::vector<std::vector<std::string>>& commands);

}  // namespace monograph
