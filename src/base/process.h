#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace monograph {

struct ProcessResult {
  int exit_status = 0;   // 128 + signal when killed by one
  bool is_found = true;  // false: there is no such program; exit_status is then 127
  std::string output;    // stdout and stderr, as they came
  int64_t duration_ns = 0;

  bool is_success() const { return is_found && exit_status == 0; }
};

// Runs programs side by side, without a shell, and waits for all of them. A command is the program,
// looked up in PATH, and its arguments. stdin is empty. `cancelled`: when it becomes true, all are
// killed with what they started, within some 20 ms; null: they run to their end.
std::vector<ProcessResult> run_processes(const std::vector<std::vector<std::string>>& commands,
                                         const std::atomic<bool>* cancelled = nullptr);

}  // namespace monograph
