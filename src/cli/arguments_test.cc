#include "cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace monograph::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A verb with an argument of each kind.
struct Sample {
  std::string model;
  std::int64_t batch = 8;
  double rate = 1e-3;
  std::string backend = "cpu";
  std::string data;
  bool is_full = false;
  bool is_loud = true;
  std::vector<std::string> dumps = {"none"};
  Arguments arguments{"monograph train", "train a model"};

  Sample() {
    arguments.positional("model", &model, "the preset", Arguments::Presence::kRequired,
                         {"mlp", "gpt-nano"});
    arguments.option("batch", &batch, "rows in a step");
    arguments.option("learning-rate", &rate, "peak rate");
    arguments.option("backend", &backend, "where to run", {"cpu", "null"});
    arguments.option("data", &data, "text file");
    arguments.option("fullgraph", &is_full, "refuse breaks");
    arguments.option("progress", &is_loud, "live line");
    arguments.option("dump", &dumps, "passes to dump");
  }
  bool parse(std::vector<std::string> args) { return arguments.parse(args); }
  std::string error(const std::vector<std::string>& args) {
    try {
      parse(args);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST(Arguments, KeepsDefaultsThatAreNotGiven) {
  Sample sample;
  EXPECT_TRUE(sample.parse({"mlp"}));
  EXPECT_EQ(sample.model, "mlp");
  EXPECT_EQ(sample.batch, 8);
  EXPECT_TRUE(sample.is_loud);
  EXPECT_THAT(sample.dumps, ElementsAre("none"));
}

TEST(Arguments, ReadsEachKindInBothSpellings) {
  Sample sample;
  EXPECT_TRUE(sample.parse({"--batch", "-3", "gpt-nano", "--learning-rate=2.5e-4", "--fullgraph",
                            "--no-progress", "--data", "a b", "--backend=null"}));
  EXPECT_EQ(sample.model, "gpt-nano");
  EXPECT_EQ(sample.batch, -3);
  EXPECT_EQ(sample.rate, 2.5e-4);
  EXPECT_TRUE(sample.is_full);
  EXPECT_FALSE(sample.is_loud);
  EXPECT_EQ(sample.data, "a b");
  EXPECT_EQ(sample.backend, "null");
}

TEST(Arguments, AnEmptyTextIsAValue) {
  Sample sample;
  sample.data = "default";
  EXPECT_TRUE(sample.parse({"mlp", "--data", ""}));
  EXPECT_EQ(sample.data, "");
}

TEST(Arguments, AListIsRepeatedOrSplitAndTakesNoPositional) {
  Sample sample;
  EXPECT_TRUE(sample.parse({"--dump", "fuse,cse", "--dump", "autodiff", "mlp"}));
  EXPECT_THAT(sample.dumps, ElementsAre("fuse", "cse", "autodiff"));
  EXPECT_EQ(sample.model, "mlp");
}

TEST(Arguments, TrailingPositionalsGoToTheList) {
  std::string first;
  std::vector<std::string> rest;
  Arguments arguments("monograph logs", "read logs");
  arguments.positional("kind", &first, "kind");
  arguments.positional("files", &rest, "files", Arguments::Presence::kOptional);
  EXPECT_TRUE(arguments.parse(std::vector<std::string>{"torch", "a.log", "b.log"}));
  EXPECT_EQ(first, "torch");
  EXPECT_THAT(rest, ElementsAre("a.log", "b.log"));
}

TEST(Arguments, AnUnknownOptionNamesTheNearestAndAll) {
  Sample sample;
  const std::string message = sample.error({"mlp", "--bacth", "4"});
  EXPECT_THAT(message, HasSubstr("[monograph train] unknown option --bacth (did you mean --batch?)"
                                 ": the options are --help, --batch, --learning-rate"));
  EXPECT_THAT(sample.error({"--zzz=1"}), HasSubstr("unknown option --zzz: the options are"));
}

TEST(Arguments, AValueThatIsNotAllowedNamesTheAllowed) {
  Sample sample;
  EXPECT_EQ(sample.error({"mlp", "--backend", "nul"}),
            "[monograph train] --backend 'nul' is unknown (did you mean null?): use cpu, null");
  EXPECT_EQ(sample.error({"resnet"}),
            "[monograph train] MODEL 'resnet' is unknown: use mlp, gpt-nano");
}

TEST(Arguments, AMalformedNumberSaysWhatToGive) {
  Sample sample;
  for (const std::string text : {"abc", "1.5", "12x", "99999999999999999999"}) {
    EXPECT_EQ(sample.error({"mlp", "--batch=" + text}),
              "[monograph train] --batch '" + text + "' is not valid: give a whole number")
        << text;
  }
  for (const std::string text : {"fast", "nan", "inf", "1e999", "1,5"}) {
    EXPECT_EQ(sample.error({"mlp", "--learning-rate", text}),
              "[monograph train] --learning-rate '" + text + "' is not valid: give a finite number")
        << text;
  }
}

TEST(Arguments, MissingAndSurplusArgumentsAreNamed) {
  Sample sample;
  EXPECT_EQ(sample.error({}), "[monograph train] MODEL is missing: see 'monograph train --help'");
  EXPECT_THAT(sample.error({"mlp", "more"}),
              HasSubstr("'more' is one argument too many: 1 expected"));
  for (const std::string cut : {"--batch", "--batch="})
    EXPECT_THAT(sample.error({"mlp", cut}), HasSubstr("--batch: 1 required INTEGER missing"));
  EXPECT_THAT(sample.error({"mlp", "--batch", "1", "--batch", "2"}), HasSubstr("--batch"));
  EXPECT_THAT(sample.error({"mlp", "--fullgraph=banana"}), HasSubstr("fullgraph"));
}

TEST(Arguments, HelpIsPrintedEvenWithArgumentsMissing) {
  Sample sample;
  ::testing::internal::CaptureStdout();
  EXPECT_FALSE(sample.parse({"--help"}));
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), R"(monograph train: train a model

usage: monograph train MODEL [options]

  MODEL  the preset: mlp|gpt-nano

options
  --batch INTEGER         rows in a step (default: 8)
  --learning-rate NUMBER  peak rate (default: 0.001)
  --backend cpu|null      where to run (default: cpu)
  --data TEXT             text file
  --[no-]fullgraph        refuse breaks
  --[no-]progress         live line (default: on)
  --dump TEXT[,TEXT...]   passes to dump (default: none)
  --help                  print this text
)");
}

}  // namespace
}  // namespace monograph::cli
