#include "comm/process/process_world.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <vector>

#include "base/error.h"
#include "comm/checked_communicator.h"
#include "comm/process/group_transport.h"
#include "comm/store/store_server.h"
#include "comm/store/store_watch.h"
#include "comm/threads/thread_world.h"

namespace monograph::comm {
namespace {

// Two processes with equal words can map each other's memory: one kernel, one pid namespace.
std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat pids = {};
  stat("/proc/self/ns/pid", &pids);
  return fmt::format("{}/{}", boot, pids.st_ino);
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

// Writes through a second name, so that a reader never sees half of it.
void write_flight_record(const FlightRecorder& recorder, const std::string& directory, int rank,
                         Milliseconds timeout) {
  const std::string path = fmt::format("{}/flight_recorder_rank_{}.json", directory, rank);
  const std::string unfinished = path + ".tmp";
  std::error_code ignored;  // the error that led here is what counts
  std::filesystem::create_directories(directory, ignored);
  std::ofstream file(unfinished);
  file << recorder.json("monograph", timeout.count()) << "\n";
  file.close();
  if (file.good()) std::filesystem::rename(unfinished, path, ignored);
}

class JoinedWorld : public ProcessWorld {
 public:
  explicit JoinedWorld(const ProcessWorldOptions& options)
      : options_(options),
        num_exceptions_(std::uncaught_exceptions()),
        recorder_(std::make_shared<FlightRecorder>(options.store.rank)) {
    const StoreAddress& address = options.store;
    rank = address.rank;
    size = address.world_size;
    local_rank = options.local_rank;
    local_size = options.local_size;
    host = host_name();
    if (address.serving_rank == rank) {
      server_ = std::make_unique<StoreServer>(address.endpoint, size, address.token);
    }
    tcp_store_ = std::make_shared<TcpStore>(address, options.join_timeout);
    store = tcp_store_;
    watch_ = std::make_shared<StoreWatch>(address, recorder_, options.timeout, [this] {
      if (options_.log_directory.empty()) return;
      write_flight_record(*recorder_, options_.log_directory, rank, options_.timeout);
    });
    meet();
  }

  ~JoinedWorld() override {
    const bool is_failing = std::uncaught_exceptions() > num_exceptions_;
    watch_->leave(is_failing ? "it ended by an exception, which its log shows" : "");
    // The others still need the store.
    if (server_) server_->wait_until_deserted(std::min(options_.timeout, Milliseconds(10'000)));
  }

  std::unique_ptr<Communicator> split(std::span<const int> ranks, std::string_view name) override {
    return split_over(options_.transport, ranks, name);
  }

  Job job() const override { return {recorder_, watch_, options_.timeout}; }

  std::unique_ptr<Communicator> split_over(Transport transport, std::span<const int> ranks,
                                           std::string_view name) override {
    const Group group = make_group(ranks, name);
    const std::string members = fmt::format("{}/{}", name, describe_ranks(group.ranks));
    const Wiring wiring = {group, job(), store,
                           fmt::format("group/{}/{}/", members, num_splits_[members]++),
                           tcp_store_->local_address()};
    // Recorded as call 0, so that a rank that does not come here is told from one that does.
    const Call call = make_call(Operation::kBarrier, 0, ElementType::kU8, "split");
    recorder_->add_group(group);
    const int64_t number = recorder_->begin(group.name, call);
    const auto deadline = Clock::now() + options_.timeout;
    try {
      auto made = wire_up(wiring, are_on_one_host(group), transport, log_);
      recorder_->finish(number);
      return made;
    } catch (const CommError& error) {
      if (!error.place().operation.empty()) throw;     // of a call, which named who is at fault
      const bool is_broken = Clock::now() < deadline;  // by a rank that goes, as far as is known
      const Failure failure = watch_->settle(group, call, {error.what(), {}, false, is_broken});
      throw CommError(fmt::format("[split] of group '{}' failed in rank {}: {} ({})", name, rank,
                                  failure.reason, error.what()),
                      {rank, "split", std::string(name), 0, failure.at_fault});
    }
  }

 private:
  // Waits until all ranks are there, and learns on which hosts.
  void meet() {
    const auto key = [](int r) { return fmt::format("world/{}", r); };
    store->set(key(rank), host_identity());
    std::vector<std::string> keys;
    for (int r = 0; r < size; ++r) keys.push_back(key(r));
    try {
      store->wait(keys, options_.join_timeout);
    } catch (const CommError& error) {
      fail_to_meet(keys, error.what());
    }
    for (int r = 0; r < size; ++r) hosts_.push_back(store->get(key(r), options_.join_timeout));
    log_ = options_.log ? options_.log
                        : [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  }

  [[noreturn]] void fail_to_meet(const std::vector<std::string>& keys, const std::string& problem) {
    Failure failure;
    for (int r = 0; r < size; ++r) {
      try {
        store->get(keys[static_cast<size_t>(r)], Milliseconds(0));
      } catch (const CommError&) {
        failure.at_fault.push_back(r);
      }
    }
    failure.reason = fmt::format("{} never joined the job of {} ranks ({})",
                                 describe_ranks(failure.at_fault), size, problem);
    watch_->report(failure);
    throw CommError(fmt::format("[join] failed in rank {}: {}", rank, failure.reason),
                    {rank, "join", "", 0, failure.at_fault});
  }

  bool are_on_one_host(const Group& group) const {
    for (int r : group.ranks) {
      if (hosts_[static_cast<size_t>(r)] != hosts_[static_cast<size_t>(rank)]) return false;
    }
    return true;
  }

  const ProcessWorldOptions options_;
  const int num_exceptions_;
  const std::shared_ptr<FlightRecorder> recorder_;
  std::unique_ptr<StoreServer> server_;
  std::shared_ptr<TcpStore> tcp_store_;
  std::shared_ptr<StoreWatch> watch_;
  std::function<void(const std::string&)> log_;
  std::vector<std::string> hosts_;  // of each rank
  std::map<std::string, int> num_splits_;
};

}  // namespace

std::unique_ptr<ProcessWorld> join_processes(const ProcessWorldOptions& options) {
  return std::make_unique<JoinedWorld>(options);
}

std::unique_ptr<World> join_world(const ProcessWorldOptions& options) {
  if (options.store.world_size == 1) return make_single_world();
  // Gloo writes to sockets whose peer may be gone: that is an error to report, not the end of this
  // process. A handler of the program's own stays.
  struct sigaction current = {};
  if (sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);
  }
  return join_processes(options);
}

}  // namespace monograph::comm
