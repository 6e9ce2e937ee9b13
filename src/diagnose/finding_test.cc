#include "diagnose/finding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace monograph::diagnose {
namespace {

using testing::HasSubstr;
using testing::Not;

Report example() {
  Report report;
  report.title = "monograph logs";
  report.files_read = 2;
  Finding note;
  note.code = "perf_hint";
  note.severity = Severity::kNote;
  note.what = "a hint";
  note.weight = 100;
  Finding light;
  light.code = "recompile";
  light.what = "forward recompiled";
  light.weight = 1;
  light.count = 3;
  light.where = {{0, 1, 2, 5}, "forward [0/1]", "train.py", 31, ""};
  light.why = "size of x changed";
  light.advice = "mark it dynamic";
  light.evidence = {"- 0/0: tensor 'x' size mismatch <b>\xff"};
  Finding heavy = light;
  heavy.what = "step recompiled";
  heavy.weight = 9;
  report.findings = {note, light, heavy};
  report.sections.push_back(
      {"Graphs", {}, {{"", {"graph", "nodes"}, {{"0/0", std::int64_t{1234}}}}}, {}});
  sort_findings(report);
  return report;
}

TEST(Finding, HeaviestFaultComesFirstAndNotesLast) {
  const Report report = example();
  EXPECT_EQ(report.findings[0].what, "step recompiled");
  EXPECT_EQ(report.findings[2].code, "perf_hint");
}

TEST(Finding, ExitStatusIgnoresNotes) {
  Report report = example();
  EXPECT_EQ(exit_status(report), 1);
  report.findings.erase(report.findings.begin(), report.findings.begin() + 2);
  EXPECT_EQ(exit_status(report), 0);
  report.files_read = 0;
  EXPECT_EQ(exit_status(report), 2);
}

TEST(Finding, DescribesPlaces) {
  EXPECT_EQ(describe(example().findings[1].where), "ranks 0-2, 5, forward [0/1], train.py:31");
  EXPECT_EQ(describe_ranks({3, 4}), "ranks 3, 4");
  EXPECT_EQ(describe(Place{}), "");
}

TEST(Finding, TextBeginsWithTheAnswer) {
  const std::string text = to_text(example(), Colour::kOff);
  EXPECT_THAT(text, HasSubstr("2 findings, 1 note in 2 files"));
  EXPECT_LT(text.find("step recompiled"), text.find("forward recompiled"));
  EXPECT_THAT(text, HasSubstr("where    ranks 0-2, 5"));
  EXPECT_THAT(text, HasSubstr("1,234"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(to_text(example(), Colour::kOn), HasSubstr("\x1b["));
}

TEST(Finding, JsonIsValidWhateverTheBytes) {
  const auto json = nlohmann::json::parse(to_json(example()));
  EXPECT_EQ(json["exit_status"], 1);
  EXPECT_EQ(json["answer"], "step recompiled");
  EXPECT_EQ(json["findings"][0]["where"]["line"], 31);
  EXPECT_EQ(json["sections"][0]["tables"][0]["rows"][0][1], 1234);
}

TEST(Finding, HtmlIsSelfContainedAndEscaped) {
  const std::string html = to_html(example());
  EXPECT_THAT(html, HasSubstr("mismatch &lt;b&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("http")));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
}

}  // namespace
}  // namespace monograph::diagnose
