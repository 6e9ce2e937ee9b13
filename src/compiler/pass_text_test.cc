// The text tests of passes: every case in tests/passes/*.txt is one test.
//
//   // RUN: canonicalize, simplify_algebra
//   graph @step { ... }
//   // CHECK: %1 = sub(%x, %y)     stands in the result, after the line of the CHECK before
//   // CHECK-NEXT: return %1       stands on the very next line
//   // CHECK-NOT: neg              stands nowhere in the result
//   // GOAL: 4096 products        the context's memory goal, in live bytes; for rematerialize
//   // JOINS: true                join_copies does its work
//   // UNCHANGED                   the passes leave the graph as it was
//   -----                          the next case
//
// The result is the text of the graph after the passes; each test says at least one thing of it. A
// failing test prints it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/pass_runner.h"
#include "ir/parser.h"
#include "ir/printer.h"

namespace monograph::compiler {
namespace {

struct TextCase {
  std::string name;  // "simplify_algebra_3"
  std::string file;
  std::string text;
};

std::ostream& operator<<(std::ostream& out, const TextCase& text_case) {
  return out << text_case.file;
}

std::vector<TextCase> cases_of(const std::filesystem::path& path) {
  std::vector<TextCase> cases;
  const auto add = [&](const std::string& text) {
    cases.push_back({fmt::format("{}_{}", path.stem().string(), cases.size() + 1),
                     path.filename().string(), text});
  };
  std::ifstream file(path);
  std::string line, text;
  while (std::getline(file, line)) {
    if (line.starts_with("-----")) {
      add(std::exchange(text, {}));
    } else {
      text += line + '\n';
    }
  }
  add(text);
  return cases;
}

std::vector<TextCase> all_cases() {
  const std::filesystem::path folder = std::filesystem::path(MONOGRAPH_SOURCE_DIR) / "tests/passes";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<TextCase> cases;
  for (const auto& file : files) {
    for (TextCase& text_case : cases_of(file)) cases.push_back(std::move(text_case));
  }
  return cases;
}

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(' ') - begin + 1));
}

// What follows `directive` in each comment that begins with it, in order.
struct Directive {
  std::string name, argument;
};
std::vector<Directive> directives_of(const std::string& text) {
  std::vector<Directive> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string comment = trimmed(line);
    if (!comment.starts_with("// ")) continue;
    const std::string body = comment.substr(3);
    const size_t colon = body.find(':');
    const std::string name = body.substr(0, colon);
    if (name == "RUN" || name == "CHECK" || name == "CHECK-NEXT" || name == "CHECK-NOT") {
      found.push_back({name, trimmed(body.substr(colon + 1))});
    }
    if (name == "GOAL" || name == "JOINS") found.push_back({name, trimmed(body.substr(colon + 1))});
    if (body == "UNCHANGED") found.push_back({body, ""});
  }
  return found;
}

std::vector<PipelineStep> steps_named(const std::string& list) {
  std::vector<PipelineStep> steps;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    const auto known = pipeline();
    const auto step = std::find_if(known.begin(), known.end(), [&](const PipelineStep& candidate) {
      return candidate.name == trimmed(name);
    });
    EXPECT_NE(step, known.end()) << "no pass is called '" << trimmed(name) << "'";
    if (step != known.end()) steps.push_back(*step);
  }
  return steps;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The first CHECK that does not hold, else nothing.
std::string first_failure(const std::vector<Directive>& directives, const std::string& result) {
  const std::vector<std::string> lines = lines_of(result);
  size_t next = 0;
  for (const auto& [name, argument] : directives) {
    const auto holds = [&](size_t line) {
      return line < lines.size() && lines[line].find(argument) != std::string::npos;
    };
    if (name == "CHECK-NOT" && result.find(argument) != std::string::npos) {
      return "CHECK-NOT: " + argument;
    }
    if (name != "CHECK" && name != "CHECK-NEXT") continue;
    while (name == "CHECK" && next < lines.size() && !holds(next)) ++next;
    if (!holds(next)) return name + ": " + argument;
    ++next;
  }
  return "";
}

class PassText : public testing::TestWithParam<TextCase> {};

TEST_P(PassText, Holds) {
  const std::string& text = GetParam().text;
  const std::vector<Directive> directives = directives_of(text);
  ASSERT_GE(directives.size(), 2u) << "a case has a RUN and a CHECK or UNCHANGED";
  ASSERT_EQ(directives[0].name, "RUN");
  const auto graph = ir::parse_graph(text, GetParam().name);
  const Hash before = graph->hash();
  passes::PassContext context;
  for (const auto& [name, argument] : directives) {
    if (name == "GOAL") {
      context.set_memory_goal({std::stoll(argument), argument.ends_with("products")});
    }
    if (name == "JOINS") context.joins_copies = argument == "true";
  }
  run_passes(*graph, context, {}, steps_named(directives[0].argument));
  const std::string result = ir::to_text(*graph);
  EXPECT_EQ(first_failure(directives, result), "") << "the result is\n" << result;
  if (directives.back().name == "UNCHANGED") {
    EXPECT_EQ(graph->hash(), before) << "the result is\n" << result;
  }
}

INSTANTIATE_TEST_SUITE_P(Passes, PassText, testing::ValuesIn(all_cases()),
                         [](const auto& parameter) { return parameter.param.name; });

TEST(PassTextChecks, FailWhenTheResultIsAnother) {
  const std::string result = "a\nb\nc\n";
  EXPECT_EQ(first_failure({{"CHECK", "a"}, {"CHECK-NEXT", "b"}, {"CHECK", "c"}}, result), "");
  EXPECT_EQ(first_failure({{"CHECK", "b"}, {"CHECK", "a"}}, result), "CHECK: a");
  EXPECT_EQ(first_failure({{"CHECK", "a"}, {"CHECK-NEXT", "c"}}, result), "CHECK-NEXT: c");
  EXPECT_EQ(first_failure({{"CHECK-NOT", "c"}}, result), "CHECK-NOT: c");
}

}  // namespace
}  // namespace monograph::compiler
