#include "runtime/cpu/idle_threads.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/process.h"

namespace monograph::runtime {
namespace {

// Run by the tests below, in a process of its own.
TEST(IdleThreadsProcess, DISABLED_PrintsItsSettings) {
  char program[] = "program", all[] = "--gtest_also_run_disabled_tests";
  char filter[] = "--gtest_filter=IdleThreadsProcess.DISABLED_PrintsItsSettings";
  char* arguments[] = {program, all, filter, nullptr};
  limit_spinning(arguments);
  const char* const spin_count = std::getenv("GOMP_SPINCOUNT");
  std::printf("spin count %s\n", spin_count != nullptr ? spin_count : "unset");
}

ProcessResult run_with(std::vector<std::string> settings) {
  std::vector<std::string> command = {"env", "-u", "GOMP_SPINCOUNT", "-u", "OMP_WAIT_POLICY"};
  command.insert(command.end(), settings.begin(), settings.end());
  command.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  command.push_back("--gtest_also_run_disabled_tests");
  command.push_back("--gtest_filter=IdleThreadsProcess.DISABLED_PrintsItsSettings");
  return run_processes({command})[0];
}

TEST(IdleThreads, SpinShortly) {
  EXPECT_THAT(run_with({}).output, testing::HasSubstr("spin count 5000\n"));
}

TEST(IdleThreads, WaitAsTheUserSays) {
  EXPECT_THAT(run_with({"GOMP_SPINCOUNT=7"}).output, testing::HasSubstr("spin count 7\n"));
  EXPECT_THAT(run_with({"OMP_WAIT_POLICY=passive"}).output,
              testing::HasSubstr("spin count unset\n"));
}

}  // namespace
}  // namespace monograph::runtime
