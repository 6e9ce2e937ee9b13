#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

extern char** environ;

namespace monograph {
namespace {

struct Child {
  pid_t pid = -1;
  int output = -1;  // the read end of its stdout and stderr; -1 when closed
};

Child start(const std::vector<std::string>& command, ProcessResult* result) {
  check(!command.empty(), "run_processes: an empty command");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw_user_error("cannot make a pipe: {}", strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  Child child;
  const int error =
      posix_spawnp(&child.pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    *result = {127, false, strerror(error)};
    return {};
  }
  child.output = ends[0];
  return child;
}

// Reads what all children write until each has closed its end.
void collect_output(std::vector<Child>& children, std::vector<ProcessResult>& results) {
  for (;;) {
    std::vector<pollfd> waiting;
    std::vector<size_t> owners;
    for (size_t c = 0; c < children.size(); ++c) {
      if (children[c].output < 0) continue;
      waiting.push_back({children[c].output, POLLIN, 0});
      owners.push_back(c);
    }
    if (waiting.empty()) return;
    if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) {
      throw_internal_error("poll: {}", strerror(errno));
    }
    for (size_t w = 0; w < waiting.size(); ++w) {
      if (waiting[w].revents == 0) continue;
      char buffer[4096];
      const ssize_t count = read(waiting[w].fd, buffer, sizeof buffer);
      if (count > 0) {
        results[owners[w]].output.append(buffer, static_cast<size_t>(count));
      } else if (count == 0 || errno != EINTR) {
        close(waiting[w].fd);
        children[owners[w]].output = -1;
      }
    }
  }
}

}  // namespace

std::vector<ProcessResult> run_processes(const std::vector<std::vector<std::string>>& commands) {
  std::vector<ProcessResult> results(commands.size());
  std::vector<Child> children;
  for (size_t c = 0; c < commands.size(); ++c) children.push_back(start(commands[c], &results[c]));
  collect_output(children, results);
  for (size_t c = 0; c < children.size(); ++c) {
    if (children[c].pid < 0) continue;
    int status = 0;
    while (waitpid(children[c].pid, &status, 0) < 0) {
      if (errno != EINTR) throw_internal_error("waitpid: {}", strerror(errno));
    }
    results[c].exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return results;
}

}  // namespace monograph
