#include "ir/graph_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/parser.h"

namespace monograph::ir {
namespace {

using testing::HasSubstr;

std::unique_ptr<Graph> graph_of(const std::string& lines) {
  return parse_graph(
      "graph @g {\n%x = input \"x\" : f32[2]\n%s = state \"s\" {role=\"buffer\"} : " +
      std::string("f32[2]\n") + lines + "\n}");
}

const std::string kBase = "%a = scale(%x) {by=nan} : f32[2]\nreturn %a, %x\nupdate %s = %a";

// Each differs from the base in one thing that the hash covers.
const std::string kVariants[] = {
    "%a = shift(%x) {by=nan} : f32[2]\nreturn %a, %x\nupdate %s = %a",
    "%a = scale(%s) {by=nan} : f32[2]\nreturn %a, %x\nupdate %s = %a",
    "%a = scale(%x, %x) {by=nan} : f32[2]\nreturn %a, %x\nupdate %s = %a",
    "%a = scale(%x) {by=0.0} : f32[2]\nreturn %a, %x\nupdate %s = %a",
    "%a = scale(%x) {by=-0.0} : f32[2]\nreturn %a, %x\nupdate %s = %a",
    "%a = scale(%x) {by=[]} : f32[2]\nreturn %a, %x\nupdate %s = %a",
    "%a = scale(%x) {of=nan} : f32[2]\nreturn %a, %x\nupdate %s = %a",
    "%a = scale(%x) : f32[2]\nreturn %a, %x\nupdate %s = %a",
    "backward %a = scale(%x) {by=nan} : f32[2]\nreturn %a, %x\nupdate %s = %a",
    "%a, %b = scale(%x) {by=nan} : f32[2], f32[2]\nreturn %a, %x\nupdate %s = %a",
    "%a = scale(%x) {by=nan} : f32[2]\n%b = neg(%a) : f32[2]\nreturn %a, %x\nupdate %s = %a",
    "%a = scale(%x) {by=nan} : f32[2]\nreturn %x, %a\nupdate %s = %a",
    "%a = scale(%x) {by=nan} : f32[2]\nreturn %a, %x, %x\nupdate %s = %a",
    "%a = scale(%x) {by=nan} : f32[2]\nreturn %a, %x\nupdate %s = %x",
    "%a = scale(%x) {by=nan} : f32[2]\nreturn %a, %x",
    "%a = fused(%x) {by=nan} : f32[2] {\n%b = input \"b\" : f32[2]\nreturn %b }\nreturn %a, %x\n"
    "update %s = %a",
    "%a = fused(%x) {by=nan} : f32[2] {\n%b = input \"b\" : f32[2]\n%c = neg(%b) : f32[2]\n"
    "return %c }\nreturn %a, %x\nupdate %s = %a",
};

TEST(GraphTable, EqualGraphsMayDifferInNamesAndPlaces) {
  const auto a = graph_of(kBase);
  const auto b = graph_of(
      "%q = scale(%x) {by=nan} : f32[2]  // a.h:1 in b\nreturn y=%q, %x\n"
      "update %s = %q");
  b->find_placeholder("x")->set_name("other");
  EXPECT_TRUE(same_graph(*a, *b));
  EXPECT_EQ(a->hash(), b->hash());
}

TEST(GraphTable, SeesEachDifferenceThatTheHashSees) {
  std::vector<std::unique_ptr<Graph>> graphs;
  graphs.push_back(graph_of(kBase));
  for (const std::string& variant : kVariants) graphs.push_back(graph_of(variant));
  for (size_t i = 0; i < graphs.size(); ++i) {
    for (size_t j = 0; j < graphs.size(); ++j) {
      EXPECT_EQ(same_graph(*graphs[i], *graphs[j]), i == j) << i << " and " << j;
      EXPECT_EQ(graphs[i]->hash() == graphs[j]->hash(), i == j) << i << " and " << j;
    }
  }
}

TEST(GraphTable, ShowsBothSidesOfTheFirstDifference) {
  EXPECT_EQ(*first_difference(*graph_of(kBase), *graph_of(kVariants[0])),
            "node 2: %1 = scale(%x) {by=nan} : f32[2] against %1 = shift(%x) {by=nan} : f32[2]");
  EXPECT_EQ(*first_difference(*graph_of(kVariants[15]), *graph_of(kVariants[16])),
            "body of node 2: node 1: no node against %0 = neg(%b) : f32[2]");
}

TEST(GraphTable, DetectsEqualHashesOfUnequalGraphs) {
  GraphTable table(2);  // 18 graphs on 4 hashes: most collide
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(table.add(*graph_of(kBase)), 0);
    for (size_t i = 0; i < std::size(kVariants); ++i) {
      EXPECT_EQ(table.add(*graph_of(kVariants[i])), static_cast<int>(i) + 1);
    }
  }
  EXPECT_EQ(table.size(), 18);
  EXPECT_GE(table.collisions().size(), 14u);
  EXPECT_THAT(table.collisions()[0].message, HasSubstr("and differ: "));
}

TEST(GraphTable, WholeHashesDoNotCollide) {
  GraphTable table;
  table.add(*graph_of(kBase));
  for (const std::string& variant : kVariants) {
    EXPECT_FALSE(table.find(*graph_of(variant)).has_value());
    table.add(*graph_of(variant));
  }
  EXPECT_TRUE(table.collisions().empty());
}

}  // namespace
}  // namespace monograph::ir
