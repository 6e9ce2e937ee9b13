#include "launch/rank_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/error.h"

extern char** environ;

namespace monograph::launch {
namespace {

std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> merged;
  std::set<std::string_view> own;
  for (const auto& [name, value] : variables) {
    own.insert(name);
    merged.push_back(name + "=" + value);
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!own.contains(text.substr(0, text.find('=')))) merged.emplace_back(text);
  }
  return merged;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, between fork and exec: only what is safe there. Reports errno and ends if it fails.
[[noreturn]] void become(char* const* arguments, char* const* environment, int output, int failure,
                         pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (getppid() == parent) execvpe(arguments[0], arguments, environment);
  const int error = errno;
  (void)!write(failure, &error, sizeof error);
  _exit(127);
}

bool tells_an_error(std::string_view line) {
  return line.starts_with("error:") || line.find("Error:") != line.npos ||
         line.starts_with("terminate called") || line.find("Sanitizer:") != line.npos;
}

}  // namespace

RankProcess::RankProcess(int rank, const std::vector<std::string>& command,
                         const std::vector<std::pair<std::string, std::string>>& variables,
                         const std::string& log_path)
    : rank_(rank), log_path_(log_path), log_(std::fopen(log_path.c_str(), "we")) {
  if (log_ == nullptr) {
    throw_user_error("[run] cannot write {}: {}: give another --log-dir", log_path,
                     strerror(errno));
  }
  std::vector<std::string> words = command;
  std::vector<std::string> environment = merged_environment(variables);
  const std::vector<char*> arguments = pointers_to(words);
  const std::vector<char*> settings = pointers_to(environment);
  int output[2];
  int failure[2];
  check(pipe2(output, O_CLOEXEC) == 0 && pipe2(failure, O_CLOEXEC) == 0, "pipe2: errno {}", errno);
  comm::Socket write_end(output[1]);
  comm::Socket failure_read(failure[0]);
  comm::Socket failure_write(failure[1]);
  output_ = comm::Socket(output[0]);
  fcntl(output_.fd(), F_SETFL, O_NONBLOCK);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) become(arguments.data(), settings.data(), output[1], failure[1], parent);
  if (pid_ < 0) throw_user_error("[run] cannot start rank {}: {}", rank, strerror(errno));
  setpgid(pid_, pid_);  // also here: whichever is first
  failure_write.close();
  int error = 0;
  if (read(failure_read.fd(), &error, sizeof error) == sizeof error) {
    waitpid(pid_, nullptr, 0);
    throw_user_error("[run] cannot run '{}': {}", command[0], strerror(error));
  }
}

void RankProcess::read_output() {
  char buffer[16384];
  while (output_.is_open()) {
    const ssize_t count = read(output_.fd(), buffer, sizeof buffer);
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) break;
    }
    if (count <= 0) {
      output_.close();
      if (!unfinished_line_.empty()) take_line(std::exchange(unfinished_line_, ""));
      break;
    }
    const std::string_view text(buffer, static_cast<size_t>(count));
    std::fwrite(text.data(), 1, text.size(), log_.get());
    for (char c : text) {
      if (c == '\n') {
        take_line(std::exchange(unfinished_line_, ""));
      } else {
        unfinished_line_ += c;
      }
    }
  }
  std::fflush(log_.get());
  std::fflush(stdout);
}

void RankProcess::take_line(const std::string& line) {
  fmt::print("[{}] {}\n", rank_, line);
  if (tells_an_error(line)) error_line_ = line;
  if (!line.empty()) last_line_ = line;
}

std::optional<int> RankProcess::poll_exit() {
  if (exit_status_) return exit_status_;
  // The process group's number stays taken until its leader is reaped.
  siginfo_t info = {};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  kill(-pid_, SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
  exit_status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return exit_status_;
}

std::optional<comm::Clock::time_point> RankProcess::poll_stopped() {
  siginfo_t info = {};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 &&
         info.si_pid != 0) {
    stopped_since_.reset();
    if (info.si_code == CLD_STOPPED) stopped_since_ = comm::Clock::now();
    info = {};
  }
  return stopped_since_;
}

void RankProcess::send_signal(int signal) const {
  if (!exit_status_) kill(-pid_, signal);
}

std::string describe_exit(int status) {
  if (status <= 128) return fmt::format("exited with status {}", status);
  const char* name = sigabbrev_np(status - 128);
  return fmt::format("was killed by signal {}{}", status - 128,
                     name == nullptr ? "" : fmt::format(" (SIG{})", name));
}

}  // namespace monograph::launch
