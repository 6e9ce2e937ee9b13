#pragma once

#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/store/socket.h"

namespace monograph::launch {

// One rank's process, the leader of its own process group. The kernel kills it when this process
// dies. Must be started by the main thread: its death is what the kernel watches.
class RankProcess {
 public:
  // variables: set beside this process's environment. Output goes to the log and, line by line with
  // the rank in front, to this process's stdout. UserError when the log cannot be opened or the
  // program cannot be started.
  RankProcess(int rank, const std::vector<std::string>& command,
              const std::vector<std::pair<std::string, std::string>>& variables,
              const std::string& log_path);

  int rank() const { return rank_; }
  pid_t pid() const { return pid_; }
  int output_fd() const { return output_.fd(); }  // -1 once it is closed
  const std::string& log_path() const { return log_path_; }

  // Takes what can be read now.
  void read_output();
  // Nothing while it runs; then the status, 128 + signal if a signal ended it. What is left of its
  // process group is killed.
  std::optional<int> poll_exit();
  const std::optional<int>& exit_status() const { return exit_status_; }
  // Since when a signal has it stopped; nothing while it runs.
  std::optional<comm::Clock::time_point> poll_stopped();
  // To the whole process group.
  void send_signal(int signal) const;

  // The last line that tells an error, else the last line.
  const std::string& last_words() const { return error_line_.empty() ? last_line_ : error_line_; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void take_line(const std::string& line);

  const int rank_;
  const std::string log_path_;
  pid_t pid_ = -1;
  comm::Socket output_;
  std::unique_ptr<std::FILE, CloseFile> log_;
  std::string unfinished_line_;
  std::string last_line_;
  std::string error_line_;
  std::optional<int> exit_status_;
  std::optional<comm::Clock::time_point> stopped_since_;
};

// "exited with status 3", "was killed by signal 9 (SIGKILL)"
std::string describe_exit(int status);

}  // namespace monograph::launch
