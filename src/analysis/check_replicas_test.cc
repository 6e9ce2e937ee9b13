#include "analysis/check_replicas.h"

#include <gtest/gtest.h>

#include "ir/parser.h"

namespace monograph::analysis {
namespace {

std::vector<std::string> divergences(const std::string& body,
                                     const std::map<std::string, Axes>& parts = {}) {
  const auto graph = ir::parse_graph("graph @g {\n" + body + "}\n");
  std::vector<std::string> texts;
  for (const auto& [state, axis] : check_replicas(*graph, {"dp", "tp"}, {"dp"}, parts)) {
    texts.push_back(state + " over " + axis);
  }
  return texts;
}

using Texts = std::vector<std::string>;

constexpr const char* kInputs = R"(
  %x = input "x" : f32[4]
  %w = state "w" {role="parameter"} : f32[4]
  %v = state "v" {role="parameter"} : f32[4]
  %b = state "running" {role="buffer"} : f32[4]
)";

TEST(CheckReplicas, AGradientThatIsNotReducedIsFound) {
  EXPECT_EQ(divergences(std::string(kInputs) + R"(
  %g = mul(%x, %w) : f32[4]
  %r = all_reduce(%g) {axis="dp", op="sum", size=2} : f32[4]
  %p = sub(%w, %r) : f32[4]
  %q = sub(%v, %g) : f32[4]
  update %w = %p
  update %v = %q
)"),
            (Texts{"v over dp"}));
}

// What reads a buffer that ranks update apart differs from the next step on.
TEST(CheckReplicas, DifferencesGoFromStateToState) {
  EXPECT_EQ(divergences(std::string(kInputs) + R"(
  %p = sub(%w, %b) : f32[4]
  update %w = %p
  update %b = %x
)"),
            (Texts{"w over dp"}));
}

TEST(CheckReplicas, PartsAndPlacesDifferByNature) {
  const std::string body = std::string(kInputs) + R"(
  %place = state "mesh.tp" {role="buffer"} : i64[]
  %s = reduce_scatter(%x) {axis="tp", op="sum", size=2} : f32[2]
  %d = all_reduce(%s) {axis="dp", op="sum", size=2} : f32[2]
  %a = all_gather(%d) {axis="tp", size=2} : f32[4]
  %p = sub(%w, %a) : f32[4]
  %c = convert(%place) {dtype=f32} : f32[]
  %q = mul(%v, %c) : f32[4]
  update %w = %p
  update %v = %q
)";
  EXPECT_EQ(divergences(body), (Texts{"v over tp"}));
  EXPECT_EQ(divergences(body, {{"v", {"tp"}}}), Texts());
}

}  // namespace
}  // namespace monograph::analysis
