// A rank that does nothing but collectives: what the tests of faults run under `monograph run`.
// usage: all_reduce_loop STEPS [NAME=VALUE...]
//   size=N     elements of an all_reduce (1000)
//   pause=MS   sleep of each step (0)
//   victim=R   the rank that something happens to, at=S in step S, do=W: kill, stop (signals to
//              itself), throw, exit, leave, absent (sleeps on without calling), mismatch, abort
// Prints "step S" when a multiple of 100 begins and "sum ok" at the end. Exit status: 75 after a
// CommError.
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/process/process_world.h"

namespace monograph {
namespace {

using Settings = std::map<std::string, std::string>;

int64_t number(const Settings& settings, const std::string& name, int64_t otherwise) {
  const auto found = settings.find(name);
  return found == settings.end() ? otherwise : std::stoll(found->second);
}

// What befalls the victim. True: it is to leave the loop.
bool befall(const std::string& what, comm::Communicator& group) {
  if (what == "kill") raise(SIGKILL);
  if (what == "stop") raise(SIGSTOP);
  if (what == "throw") throw_user_error("the planted fault");
  if (what == "exit") std::_Exit(3);
  if (what == "abort") std::abort();
  if (what == "absent") std::this_thread::sleep_for(std::chrono::hours(1));
  if (what == "mismatch") group.barrier("planted");
  return what == "leave";
}

int run(int64_t num_steps, const Settings& settings) {
  const auto world = comm::join_world(comm::world_from_environment());
  const auto group = world->all("all");
  const int64_t size = number(settings, "size", 1000);
  const bool is_victim = number(settings, "victim", -1) == world->rank;
  const int64_t fault_step = number(settings, "at", 0);
  std::vector<float> values(static_cast<size_t>(size));
  for (int64_t step = 0; step < num_steps; ++step) {
    if (step % 100 == 0) fmt::print("step {}\n", step), std::fflush(stdout);
    if (is_victim && step == fault_step && befall(settings.at("do"), *group)) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(number(settings, "pause", 0)));
    values.assign(values.size(), static_cast<float>(world->rank + 1));
    group->all_reduce(values.data(), size, comm::ElementType::kF32, comm::ReduceOp::kSum,
                      "gradients");
    const auto expected = static_cast<float>(world->size * (world->size + 1) / 2);
    for (float value : values) {
      if (value != expected) throw_internal_error("step {}: sum {}, not {}", step, value, expected);
    }
  }
  fmt::print("sum ok by {}\n", group->name());
  return 0;
}

}  // namespace
}  // namespace monograph

int main(int argc, char** argv) {
  monograph::Settings settings;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equals = word.find('=');
    if (equals != std::string::npos) settings[word.substr(0, equals)] = word.substr(equals + 1);
  }
  try {
    return monograph::run(argc > 1 ? std::atoll(argv[1]) : 100, settings);
  } catch (const monograph::CommError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 75;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
}
