#include "launch/launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "base/error.h"
#include "comm/store/store_server.h"
#include "launch/guardian.h"
#include "launch/rank_process.h"

namespace monograph::launch {
namespace {

using comm::Clock;
using comm::Milliseconds;

// After the first failure: for the other ranks to say what they saw, then to end when asked to.
constexpr Milliseconds kLastWords{3000};
constexpr Milliseconds kEnding{5000};
constexpr int kNotAnswering = 75;  // EX_TEMPFAIL: worth another try

class Launcher {
 public:
  explicit Launcher(LaunchPlan plan) : plan_(std::move(plan)) {}

  int run() {
    take_signals();
    std::filesystem::create_directories(plan_.log_directory);
    plan_.log_directory = std::filesystem::absolute(plan_.log_directory).string();
    serve_store();
    start_ranks();
    while (num_running() > 0) {
      wait_for_news();
      for (auto& rank : ranks_) {
        rank->read_output();
        if (rank->exit_status()) continue;
        if (rank->poll_exit()) {
          note_exit(*rank);
        } else {
          note_stop(*rank);
        }
      }
      press_on();
    }
    for (auto& rank : ranks_) rank->read_output();
    const int status = report();
    // Other hosts' ranks may still need the store.
    if (server_ && plan_.num_hosts > 1) {
      server_->wait_until_deserted(Milliseconds(1000 * plan_.timeout_seconds));
    }
    return status;
  }

 private:
  // Signals come as messages, so that nothing is done inside a handler. Before any thread starts:
  // threads inherit what is blocked.
  void take_signals() {
    sigset_t taken;
    sigemptyset(&taken);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD}) {
      sigaddset(&taken, signal);
    }
    check(sigprocmask(SIG_BLOCK, &taken, nullptr) == 0, "sigprocmask");
    signals_ = comm::Socket(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
    check(signals_.is_open(), "signalfd");
    signal(SIGPIPE, SIG_IGN);  // a reader of our output that leaves does not end the job
    guardian_ = std::make_unique<Guardian>();
  }

  void serve_store() {
    if (!plan_.serves_store()) return;
    server_ = std::make_unique<comm::StoreServer>(
        comm::Endpoint{plan_.master_address, plan_.store_port}, plan_.world_size(), plan_.token);
    plan_.store_port = server_->port();
    if (plan_.master_port == 0) {
      plan_.master_port = port_of(comm::listen_on({plan_.master_address, 0}));
    }
  }

  void start_ranks() {
    for (int local = 0; local < plan_.num_local; ++local) {
      const int rank = plan_.first_rank() + local;
      ranks_.push_back(
          std::make_unique<RankProcess>(rank, plan_.command, rank_environment(plan_, local),
                                        fmt::format("{}/rank_{}.log", plan_.log_directory, rank)));
      guardian_->watch(ranks_.back()->pid());
    }
  }

  int num_running() const {
    return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(),
                                          [](const auto& rank) { return !rank->exit_status(); }));
  }

  void wait_for_news() {
    std::vector<pollfd> waiting = {{signals_.fd(), POLLIN, 0}};
    for (const auto& rank : ranks_) {
      if (rank->output_fd() >= 0) waiting.push_back({rank->output_fd(), POLLIN, 0});
    }
    // A deadline may be running, and a silent rank is known to the store's server alone.
    poll(waiting.data(), waiting.size(), is_ending() ? 50 : 250);
    signalfd_siginfo info = {};
    while (read(signals_.fd(), &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal != SIGCHLD) pass_on(signal);
    }
  }

  void pass_on(int signal) {
    const bool ends = signal != SIGUSR1 && signal != SIGUSR2;
    if (ends && signal_received_ != 0) signal = SIGKILL;  // asked twice
    for (const auto& rank : ranks_) rank->send_signal(signal);
    if (!ends || signal_received_ != 0) return;
    signal_received_ = signal;
    kill_at_ = Clock::now() + kEnding + kLastWords;  // time to write a checkpoint
    fmt::print(stderr, "run       got SIG{}: passed on to {} ranks\n", sigabbrev_np(signal),
               num_running());
  }

  bool is_ending() const { return signal_received_ != 0 || first_failed_ != nullptr; }

  void note_exit(RankProcess& rank) {
    guardian_->forget(rank.pid());
    if (!was_asked_to_end_) ended_alone_.insert(rank.rank());
    if (*rank.exit_status() == 0) return;
    rank.read_output();
    if (is_ending()) return;
    note_failure(&rank);
    // One that ends so heard of a failure elsewhere, and its own report may still be on the way.
    if (server_ && *rank.exit_status() != kNotAnswering) {
      server_->settle({{rank.rank()},
                       fmt::format("rank {} {}: {}", rank.rank(),
                                   describe_exit(*rank.exit_status()), rank.last_words())});
    }
  }

  // The other ranks find one that does not answer in a collective; where there is none, as while
  // they compile or end, nobody but its parent does.
  void note_stop(RankProcess& rank) {
    const auto since = rank.poll_stopped();
    const std::chrono::seconds limit(plan_.timeout_seconds);
    if (!since || is_ending() || Clock::now() < *since + limit) return;
    stop_ = {{rank.rank()},
             fmt::format("rank {} is not answering: a signal stopped it {} s ago", rank.rank(),
                         plan_.timeout_seconds)};
    note_failure(&rank);
    if (server_) server_->settle(*stop_);
  }

  void note_failure(RankProcess* rank) {
    first_failed_ = rank;
    end_at_ = Clock::now() + kLastWords;
    kill_at_ = *end_at_ + kEnding;
  }

  // Ends ranks whose time is over. A stopped one must go on to hear that it should end.
  void press_on() {
    const Clock::time_point now = Clock::now();
    if (end_at_ && now >= *end_at_) {
      end_at_.reset();
      was_asked_to_end_ = true;
      for (const auto& rank : ranks_) {
        rank->send_signal(SIGTERM);
        rank->send_signal(SIGCONT);
      }
    }
    if (kill_at_ && now >= *kill_at_) {
      kill_at_.reset();
      for (const auto& rank : ranks_) rank->send_signal(SIGKILL);
    }
  }

  RankProcess* local_rank(int rank) const {
    const int index = rank - plan_.first_rank();
    return index >= 0 && index < plan_.num_local ? ranks_[static_cast<size_t>(index)].get()
                                                 : nullptr;
  }

  // Says who is at fault and returns the job's status.
  int report() const {
    std::fflush(stdout);
    if (first_failed_ == nullptr) {
      const bool is_bad = std::any_of(ranks_.begin(), ranks_.end(),
                                      [](const auto& rank) { return *rank->exit_status() != 0; });
      return is_bad ? 128 + signal_received_ : 0;
    }
    const std::optional<comm::Failure> failure = server_ ? server_->first_failure() : stop_;
    const RankProcess* culprit = first_failed_;
    if (failure && !failure->at_fault.empty()) culprit = local_rank(failure->at_fault[0]);
    int status = kNotAnswering;
    if (culprit != nullptr && ended_alone_.contains(culprit->rank())) {
      status = *culprit->exit_status();
      fmt::print(stderr, "run       failed: rank {} {}: {}\n", culprit->rank(),
                 describe_exit(status), culprit->last_words());
    } else if (failure) {
      fmt::print(stderr, "run       failed: {}\n", failure->reason);
    }
    if (culprit != first_failed_) {
      fmt::print(stderr, "run       rank {} {}: {}\n", first_failed_->rank(),
                 describe_exit(*first_failed_->exit_status()), first_failed_->last_words());
    }
    if (culprit != nullptr) {
      fmt::print(stderr, "run       output of rank {}: {}\n", culprit->rank(), culprit->log_path());
    }
    fmt::print(stderr, "run       to see how far each rank was: monograph logs {}\n",
               plan_.log_directory);
    return status;
  }

  LaunchPlan plan_;
  comm::Socket signals_;
  std::unique_ptr<Guardian> guardian_;
  std::unique_ptr<comm::StoreServer> server_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  int signal_received_ = 0;
  RankProcess* first_failed_ = nullptr;
  std::optional<comm::Failure> stop_;         // a rank that was stopped for too long
  bool was_asked_to_end_ = false;             // by us; what ends then tells nothing of the cause
  std::set<int> ended_alone_;                 // ranks that ended before
  std::optional<Clock::time_point> end_at_;   // SIGTERM then
  std::optional<Clock::time_point> kill_at_;  // SIGKILL then
};

}  // namespace

int launch(LaunchPlan plan) {
  return Launcher(std::move(plan)).run();
}

}  // namespace monograph::launch
