#include "comm/process/group_transport.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "base/error.h"
#include "comm/gloo/gloo_communicator.h"
#include "comm/process/mapped_memory.h"
#include "comm/shared/shared_communicator.h"

namespace monograph::comm {
namespace {

constexpr std::array<int64_t, 2> kTimedBytes = {1 << 10, 1 << 20};
constexpr int kTimedRounds = 5;

std::vector<int64_t> numbers_in(const std::string& text) {
  std::vector<int64_t> numbers;
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc()) throw_internal_error("'{}' is no list of numbers", text);
    numbers.push_back(value);
    at = stop + 1;
  }
  return numbers;
}

// Microseconds of one all_reduce by size, the best of a few rounds and the worst rank's.
std::array<double, kTimedBytes.size()> time_all_reduce(Communicator& communicator) {
  std::array<double, kTimedBytes.size()> times = {};
  const std::shared_ptr<void> data = communicator.allocate(kTimedBytes.back());
  for (size_t i = 0; i < times.size(); ++i) {
    times[i] = 1e12;
    for (int round = 0; round <= kTimedRounds; ++round) {
      const auto begin = Clock::now();
      communicator.all_reduce(data.get(), kTimedBytes[i] / 4, ElementType::kF32, ReduceOp::kSum,
                              "timing");
      const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
      if (round > 0) times[i] = std::min(times[i], took.count());  // the first one warms up
    }
  }
  communicator.all_reduce(times.data(), times.size(), ElementType::kF64, ReduceOp::kMax, "timing");
  return times;
}

std::unique_ptr<CheckedCommunicator> make_gloo(const Wiring& wiring) {
  return make_gloo_communicator(wiring.group, wiring.job, wiring.store, wiring.prefix + "gloo/",
                                wiring.address);
}

}  // namespace

std::unique_ptr<CheckedCommunicator> make_shared_memory_communicator(const Wiring& wiring,
                                                                     std::string* problem) {
  const Group& group = wiring.group;
  const Milliseconds timeout = wiring.job.timeout;
  auto memory = std::make_shared<MappedMemory>();
  const auto key = [&](const char* what, int index) {
    return fmt::format("{}{}/{}", wiring.prefix, what, index);
  };
  // The first rank's arena serves all.
  std::shared_ptr<void> arena;
  BufferPlace place = {0, 0};
  if (group.index == 0) {
    arena = memory->allocate(Arena::bytes(group.size()));
    place = memory->locate(arena.get(), 1);
  }
  wiring.store->set(key("process", group.index), fmt::format("{},{}", getpid(), place.segment));
  std::vector<pid_t> pids;
  for (int index = 0; index < group.size(); ++index) {
    const auto numbers = numbers_in(wiring.store->get(key("process", index), timeout));
    pids.push_back(static_cast<pid_t>(numbers.at(0)));
    if (index == 0) place.segment = numbers.at(1);
  }
  memory->set_peers(std::move(pids));
  std::string own_problem;
  char* base = nullptr;
  try {
    base = memory->resolve(0, place);
  } catch (const CommError& error) {
    own_problem = error.what();
  }
  wiring.store->set(key("mapped", group.index), own_problem);
  for (int index = 0; index < group.size(); ++index) {
    const std::string text = wiring.store->get(key("mapped", index), timeout);
    if (!text.empty()) *problem = text;
  }
  if (!problem->empty()) return nullptr;
  return std::make_unique<SharedCommunicator>("shared memory", group, wiring.job,
                                              Arena(base, group.size()), std::move(memory));
}

std::unique_ptr<Communicator> wire_up(const Wiring& wiring, bool is_one_host, Transport transport,
                                      const std::function<void(const std::string&)>& log) {
  const auto say = [&](const std::string& line) {
    if (wiring.group.index == 0) {
      log(fmt::format("comm      group '{}' of {}: {}", wiring.group.name,
                      describe_ranks(wiring.group.ranks), line));
    }
  };
  std::string problem = is_one_host ? "" : "the ranks are on several hosts";
  std::unique_ptr<CheckedCommunicator> shared;
  if (is_one_host && transport != Transport::kGloo) {
    shared = make_shared_memory_communicator(wiring, &problem);
  }
  if (transport == Transport::kSharedMemory && shared == nullptr) {
    throw_user_error("MONOGRAPH_COMM=shared_memory: group '{}' cannot share memory: {}",
                     wiring.group.name, problem);
  }
  if (transport == Transport::kSharedMemory || wiring.group.size() == 1) {
    say("shared memory");
    return shared;
  }
  std::unique_ptr<CheckedCommunicator> gloo = make_gloo(wiring);
  if (shared == nullptr) {
    say("gloo" + (problem.empty() ? "" : " (" + problem + ")"));
    return gloo;
  }
  const auto by_memory = time_all_reduce(*shared);
  const auto by_gloo = time_all_reduce(*gloo);
  // All ranks have the same numbers, so they choose the same.
  const bool is_memory_faster = by_memory[0] + by_memory[1] <= by_gloo[0] + by_gloo[1];
  say(fmt::format(
      "{} (all_reduce of 1 KB and 1 MB: shared memory {:.0f} and {:.0f} us, gloo {:.0f} "
      "and {:.0f} us)",
      is_memory_faster ? "shared memory" : "gloo", by_memory[0], by_memory[1], by_gloo[0],
      by_gloo[1]));
  return is_memory_faster ? std::move(shared) : std::move(gloo);
}

}  // namespace monograph::comm
