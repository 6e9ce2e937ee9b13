#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/error.h"

extern char** environ;

namespace monograph {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPollMs = 20;  // between two looks at `cancelled`

struct Child {
  pid_t pid = -1;
  int output = -1;  // the read end of its stdout and stderr; -1 when closed
  Clock::time_point began = Clock::now();
};

// own_group: with all that it starts, it can be killed.
Child start(const std::vector<std::string>& command, bool own_group, ProcessResult* result) {
  check(!command.empty(), "run_processes: an empty command");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw_user_error("cannot make a pipe: {}", strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  if (own_group) posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  Child child;
  const int error =
      posix_spawnp(&child.pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    *result = {127, false, strerror(error), 0};
    return {};
  }
  child.output = ends[0];
  return child;
}

void kill_groups(const std::vector<Child>& children) {
  for (const Child& child : children) {
    if (child.pid > 0) kill(-child.pid, SIGKILL);
  }
}

// Reads what all children write until each has closed its end, or all are cancelled.
void collect_output(std::vector<Child>& children, std::vector<ProcessResult>& results,
                    const std::atomic<bool>* cancelled) {
  for (;;) {
    if (cancelled != nullptr && *cancelled) kill_groups(children);
    std::vector<pollfd> waiting;
    std::vector<size_t> owners;
    for (size_t c = 0; c < children.size(); ++c) {
      if (children[c].output < 0) continue;
      waiting.push_back({children[c].output, POLLIN, 0});
      owners.push_back(c);
    }
    if (waiting.empty()) return;
    if (poll(waiting.data(), waiting.size(), cancelled == nullptr ? -1 : kPollMs) < 0 &&
        errno != EINTR) {
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
        results[owners[w]].duration_ns =
            std::chrono::nanoseconds(Clock::now() - children[owners[w]].began).count();
        children[owners[w]].output = -1;
      }
    }
  }
}

// The status of a child's end. One that closed its output and goes on can be cancelled, too.
int wait_for(pid_t pid, const std::atomic<bool>* cancelled) {
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(pid, &status, cancelled == nullptr ? 0 : WNOHANG);
    if (ended == pid) return status;
    if (ended < 0 && errno != EINTR) throw_internal_error("waitpid: {}", strerror(errno));
    if (cancelled == nullptr) continue;
    if (*cancelled) kill(-pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

std::vector<ProcessResult> run_processes(const std::vector<std::vector<std::string>>& commands,
                                         const std::atomic<bool>* cancelled) {
  std::vector<ProcessResult> results(commands.size());
  std::vector<Child> children;
  for (size_t c = 0; c < commands.size(); ++c) {
    children.push_back(start(commands[c], cancelled != nullptr, &results[c]));
  }
  collect_output(children, results, cancelled);
  for (size_t c = 0; c < children.size(); ++c) {
    if (children[c].pid < 0) continue;
    const int status = wait_for(children[c].pid, cancelled);
    results[c].exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return results;
}

}  // namespace monograph
