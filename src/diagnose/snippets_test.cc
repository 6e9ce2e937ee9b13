#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "diagnose/source.h"

// Each file of tests/diagnose is a piece of a log with its diagnosis in front:
//   #exit 1
//   #finding recompile | what: 8 -> 6 | advice: mark_dynamic | ranks: 1   (parts that must occur)
//   #none graph_break
//   #statistic fusion_rate 0.75
//   #---
//   the log
namespace monograph::diagnose {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(MONOGRAPH_SOURCE_DIR) / "tests/diagnose";

std::string trim(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::vector<std::string> split(const std::string& text, const std::string& mark) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, begin)) {
    parts.push_back(trim(text.substr(begin, at - begin)));
    begin = at + mark.size();
  }
  parts.push_back(trim(text.substr(begin)));
  return parts;
}

std::string field(const Finding& finding, const std::string& name) {
  if (name == "what") return finding.what;
  if (name == "why") return finding.why;
  if (name == "advice") return finding.advice;
  if (name == "line") return std::to_string(finding.where.line);
  if (name == "count") return std::to_string(finding.count);
  if (name == "ranks") {
    std::string text = describe_ranks(finding.where.ranks);
    return text.substr(std::min(text.size(), text.find(' ') + 1));
  }
  ADD_FAILURE() << "no field " << name;
  return "";
}

bool matches(const Finding& finding, const std::vector<std::string>& parts) {
  if (finding.code != parts[0]) return false;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t colon = parts[i].find(": ");
    const std::string name = parts[i].substr(0, colon), want = parts[i].substr(colon + 2);
    const std::string have = field(finding, name);
    const bool exact = name == "line" || name == "count" || name == "ranks";
    if (exact ? have != want : have.find(want) == std::string::npos) return false;
  }
  return true;
}

void check(const std::string& expectation, const Report& report) {
  const std::size_t space = expectation.find(' ');
  const std::string verb = expectation.substr(0, space), rest = expectation.substr(space + 1);
  const auto& findings = report.findings;
  if (verb == "exit") {
    EXPECT_EQ(exit_status(report), std::stoi(rest));
  } else if (verb == "finding") {
    const std::vector<std::string> parts = split(rest, " | ");
    EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), [&](const Finding& one) {
      return matches(one, parts);
    })) << rest;
  } else if (verb == "none") {
    EXPECT_TRUE(std::none_of(findings.begin(), findings.end(), [&](const Finding& one) {
      return one.code == rest;
    })) << rest;
  } else if (verb == "statistic") {
    const std::vector<std::string> parts = split(rest, " ");
    double value = std::nan("");
    for (const Statistic& one : report.statistics) {
      if (one.name != parts[0]) continue;
      value = std::visit(
          [](const auto& cell) {
            if constexpr (std::is_arithmetic_v<std::decay_t<decltype(cell)>>) {
              return static_cast<double>(cell);
            } else {
              return std::nan("");
            }
          },
          one.value);
    }
    EXPECT_NEAR(value, std::stod(parts[1]), 1e-9) << rest;
  } else {
    ADD_FAILURE() << "unknown expectation: " << expectation;
  }
}

std::vector<std::string> all_snippets() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Snippet : public testing::TestWithParam<std::string> {};

TEST_P(Snippet, HasItsDiagnosis) {
  std::ifstream in(kFolder / (GetParam() + ".txt"), std::ios::binary);
  std::stringstream whole;
  whole << in.rdbuf();
  const std::string text = whole.str();
  constexpr std::string_view kEnd = "#---\n";
  const std::size_t end = text.find(kEnd);
  ASSERT_NE(end, std::string::npos);
  const fs::path log = fs::path(testing::TempDir()) / ("snippet_" + GetParam());
  std::ofstream(log, std::ios::binary) << text.substr(end + kEnd.size());
  const Report report = diagnose_paths({log.string()}, "snippet");
  fs::remove(log);
  std::stringstream head(text.substr(0, end));
  int expectations = 0;
  for (std::string line; std::getline(head, line); ++expectations) check(line.substr(1), report);
  EXPECT_GE(expectations, 2);
  if (HasFailure()) std::printf("%s\n", to_text(report, Colour::kOff).c_str());
}

INSTANTIATE_TEST_SUITE_P(Logs, Snippet, testing::ValuesIn(all_snippets()),
                         [](const auto& snippet) { return snippet.param; });

}  // namespace
}  // namespace monograph::diagnose
