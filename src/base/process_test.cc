#include "base/process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace monograph {
namespace {

TEST(Process, GivesStatusAndOutputOfEach) {
  const auto results = run_processes({{"sh", "-c", "echo one; echo two >&2; exit 3"},
                                      {"echo", "a  b"},
                                      {"sh", "-c", "kill -9 $$"}});
  EXPECT_EQ(results[0].exit_status, 3);
  EXPECT_EQ(results[0].output, "one\ntwo\n");
  EXPECT_TRUE(results[1].is_success());
  EXPECT_EQ(results[1].output, "a  b\n");
  EXPECT_EQ(results[2].exit_status, 128 + 9);
}

TEST(Process, SaysThatAProgramIsMissing) {
  const auto results = run_processes({{"no-such-program-here"}});
  EXPECT_FALSE(results[0].is_found);
  EXPECT_FALSE(results[0].is_success());
}

TEST(Process, CollectsMoreThanAPipeHolds) {
  const auto results = run_processes({{"sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x"},
                                      {"sh", "-c", "head -c 300000 /dev/zero | tr '\\0' y"}});
  EXPECT_EQ(results[0].output, std::string(300000, 'x'));
  EXPECT_EQ(results[1].output, std::string(300000, 'y'));
}

TEST(Process, CancelledAllAreKilledWithWhatTheyStarted) {
  std::atomic<bool> cancelled = false;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    cancelled = true;
  });
  const auto start = std::chrono::steady_clock::now();
  // The inner sleep holds the pipe; the third has closed it.
  const auto results = run_processes({{"sh", "-c", "sleep 1000; true"},
                                      {"true"},
                                      {"sh", "-c", "exec >/dev/null 2>&1; sleep 1000"}},
                                     &cancelled);
  later.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_EQ(results[0].exit_status, 128 + SIGKILL);
  EXPECT_TRUE(results[1].is_success());
  EXPECT_EQ(results[2].exit_status, 128 + SIGKILL);
}

}  // namespace
}  // namespace monograph
