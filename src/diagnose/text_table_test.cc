#include "diagnose/text_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace monograph::diagnose {
namespace {

using testing::ElementsAre;

const Table kTable = {
    "",
    {"function", "parts of the key", "first"},
    {{std::string("forward"), std::int64_t{12}, std::string("a long explanation")},
     {std::string("step"), std::int64_t{3}, std::string("é")}}};

TEST(TextTable, LeavesWhatFits) {
  const TextTable text = lay_out(kTable, 80, 10);
  EXPECT_THAT(text.heading, ElementsAre("function  parts of the key  first"));
  EXPECT_THAT(text.rows, ElementsAre("forward                 12  a long explanation",
                                     "step                     3  é"));
}

TEST(TextTable, WrapsHeadingsThenCutsText) {
  const TextTable text = lay_out(kTable, 31, 10);
  EXPECT_THAT(text.heading, ElementsAre("          parts", "             of", "            the",
                                        "function    key  first"));
  EXPECT_THAT(text.rows, ElementsAre("forward      12  a long explan…", "step          3  é"));
  for (const std::string& row : text.rows) EXPECT_LE(columns_of(row), 31u);
}

TEST(TextTable, ShowsSoManyRows) {
  EXPECT_EQ(lay_out(kTable, 80, 1).rows.size(), 1u);
}

TEST(TextTable, CutsAtCodePoints) {
  EXPECT_EQ(cut_to("héé", 3), "héé");
  EXPECT_EQ(cut_to("hééé", 3), "hé…");
  EXPECT_EQ(cut_to("a\nb", 5), "a b");
}

}  // namespace
}  // namespace monograph::diagnose
