#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "base/error.h"

namespace monograph::cli {
namespace {

using ::testing::HasSubstr;

int count(std::span<const std::string> args) {
  return static_cast<int>(args.size());
}
int refuse(std::span<const std::string>) {
  throw_user_error("[train] batch 0: use at least 1");
}
int break_down(std::span<const std::string>) {
  throw_internal_error("no such node");
}
int lose_peer(std::span<const std::string>) {
  throw CommError("[all_reduce] rank 2 is gone");
}
int run_dry(std::span<const std::string>) {
  throw std::runtime_error("bad thing");
}

const std::vector<Verb> kVerbs = {
    {"train", "train a model", count}, {"compile-only", "compile it", count},
    {"refuse", "fail", refuse},        {"break", "fail", break_down},
    {"lose", "fail", lose_peer},       {"dry", "fail", run_dry}};

struct Outcome {
  int status;
  std::string out;
  std::string err;
};

Outcome run(const std::vector<std::string>& args) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int status = run_command_line(kVerbs, args);
  return {status, ::testing::internal::GetCapturedStdout(),
          ::testing::internal::GetCapturedStderr()};
}

TEST(CommandLine, ShowsTheAlignedVerbsWithoutArgumentsAndWithHelp) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{}, std::vector<std::string>{"--help"}}) {
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.out, HasSubstr("\n  train         train a model\n"
                                       "  compile-only  compile it\n"));
  }
}

TEST(CommandLine, PrintsTheVersion) {
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, ::testing::MatchesRegex("monograph [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(CommandLine, PassesArgumentsAndReturnsTheStatusOfTheVerb) {
  EXPECT_EQ(run({"train", "a", "--help", "c"}).status, 3);
}

TEST(CommandLine, AnUnknownVerbNamesTheNearestAndAll) {
  const Outcome outcome = run({"trian"});
  EXPECT_EQ(outcome.status, kExitUser);
  EXPECT_EQ(outcome.err,
            "error: unknown verb 'trian' (did you mean train?): use one of train, compile-only, "
            "refuse, break, lose, dry\n");
  EXPECT_THAT(run({"--frob"}).err, HasSubstr("unknown verb '--frob': use one of train"));
}

TEST(CommandLine, EachKindOfErrorHasItsStatusAndMessage) {
  const Outcome user = run({"refuse"});
  EXPECT_EQ(user.status, 2);
  EXPECT_EQ(user.err, "error: [train] batch 0: use at least 1\n");
  const Outcome bug = run({"break"});
  EXPECT_EQ(bug.status, 70);
  EXPECT_THAT(bug.err, HasSubstr("error: internal error (a bug, please report it): no such node"));
  EXPECT_EQ(run({"lose"}).status, 75);
  EXPECT_EQ(run({"dry"}).status, 70);
}

}  // namespace
}  // namespace monograph::cli
