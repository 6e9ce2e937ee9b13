#include "analysis/check_units.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ir/parser.h"

namespace monograph::analysis {
namespace {

using ::testing::HasSubstr;

// A unit that is gathered in these windows and whose gradients are scattered so often.
std::unique_ptr<ir::Graph> step(const std::vector<int>& windows, int num_scatters,
                                const std::string& suffix = "") {
  std::string text = "graph @g {\n  %s = state \"flat.h.0\" {role=\"parameter\"} : f32[4]\n";
  std::string outputs;
  for (size_t i = 0; i < windows.size(); ++i) {
    text += fmt::format(
        "  %w{} = all_gather{}(%s) {{axis=\"fsdp\", size=2, unit=\"h.0\", window={}}} : f32[8]\n",
        i, suffix, windows[i]);
    outputs += fmt::format("{}w{}=%w{}", outputs.empty() ? "" : ", ", i, i);
  }
  for (int i = 0; i < num_scatters; ++i) {
    text += fmt::format(
        "  %g{} = reduce_scatter{}(%w0) {{axis=\"fsdp\", op=\"sum\", size=2, unit=\"h.0\"}} : "
        "f32[4]\n",
        i, suffix);
    outputs += fmt::format(", g{}=%g{}", i, i);
  }
  return ir::parse_graph(text + "  return " + outputs + "\n}\n");
}

TEST(CheckUnits, TakesOneGatherAWindowAndOneScatter) {
  EXPECT_TRUE(check_units(*step({0, 1}, 1), *step({1, 0}, 1, "_start")).empty());
}

TEST(CheckUnits, NamesTheUnitThatIsExchangedTwice) {
  const auto gathered = check_units(*step({0, 1, 1}, 1), *step({0, 1, 1}, 1));
  ASSERT_EQ(gathered.size(), 1);
  EXPECT_EQ(gathered[0].code, "V5.1");
  EXPECT_THAT(gathered[0].message, HasSubstr("unit 'h.0' is gathered in window 1 2 times"));
  const auto scattered = check_units(*step({0}, 2), *step({0}, 2));
  ASSERT_EQ(scattered.size(), 1);
  EXPECT_EQ(scattered[0].code, "V5.2");
}

TEST(CheckUnits, NamesWhatAPassLostOrCopied) {
  const auto lost = check_units(*step({0, 1}, 1), *step({0}, 1, "_start"));
  ASSERT_EQ(lost.size(), 1);
  EXPECT_EQ(lost[0].code, "V5.3");
  EXPECT_THAT(lost[0].message, HasSubstr("window 1 1 times less than traced: a pass has lost it"));
  const auto copied = check_units(*step({0}, 1), *step({0}, 2));
  ASSERT_EQ(copied.size(), 1);
  EXPECT_THAT(copied[0].message, HasSubstr("1 times more than traced: a pass has copied it"));
}

}  // namespace
}  // namespace monograph::analysis
