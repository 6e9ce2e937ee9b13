#include "launch/guardian.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace monograph::launch {
namespace {

constexpr pid_t kAllIsWell = 0;

[[noreturn]] void guard(int pipe) {
  setsid();  // signals of the terminal are for the launcher
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  for (int fd = 0; fd < 3; ++fd) dup2(pipe, fd);  // holds no terminal and no one's pipe open
  std::vector<pid_t> groups;
  for (;;) {
    pid_t group = 0;
    const ssize_t count = read(pipe, &group, sizeof group);
    if (count < 0 && errno == EINTR) continue;
    if (count != sizeof group) break;  // the launcher is dead
    if (group == kAllIsWell) _exit(0);
    if (group > 0) groups.push_back(group);
    if (group < 0) std::erase(groups, -group);
  }
  for (pid_t group : groups) kill(-group, SIGKILL);
  _exit(1);
}

}  // namespace

Guardian::Guardian() {
  int ends[2];
  check(pipe2(ends, O_CLOEXEC) == 0, "pipe2: errno {}", errno);
  comm::Socket read_end(ends[0]);
  pipe_ = comm::Socket(ends[1]);
  pid_ = fork();
  check(pid_ >= 0, "fork: errno {}", errno);
  if (pid_ == 0) {
    pipe_.close();
    guard(read_end.fd());
  }
}

Guardian::~Guardian() {
  watch(kAllIsWell);
  waitpid(pid_, nullptr, 0);
}

void Guardian::watch(pid_t group) {
  (void)!write(pipe_.fd(), &group, sizeof group);
}

void Guardian::forget(pid_t group) {
  watch(-group);
}

}  // namespace monograph::launch
