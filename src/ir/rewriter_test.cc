#include "ir/rewriter.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"

namespace monograph::ir {
namespace {

constexpr const char* kText = R"(graph @step {
  %x = input "x" : f32[2]
  %0 = state "w" {role="buffer"} : f32[2]
  backward %1 = square(%x) : f32[2]  // a.h:1 in fc
  %2 = square(%1) : f32[2]
  return loss=%2
  update %0 = %1
}
)";

TEST(Rewriter, KeepsEverythingByDefault) {
  const auto graph = parse_graph(kText);
  EXPECT_FALSE(rewrite(*graph, [](Node&) { return keep(); }));
  EXPECT_EQ(to_text(*graph, {.provenance = true}), kText);
}

TEST(Rewriter, PutsNewNodesInPlaceAndRemapsAllUses) {
  const auto graph = parse_graph(kText);
  const bool changed = rewrite(*graph, [&](Node& node) -> Rewrite {
    if (!node.is("square")) return keep();
    return graph->add("mul", {node.operand(0), node.operand(0)}, {}, node.types())->result();
  });
  EXPECT_TRUE(changed);
  EXPECT_EQ(to_text(*graph, {.provenance = true}), R"(graph @step {
  %x = input "x" : f32[2]
  %0 = state "w" {role="buffer"} : f32[2]
  backward %1 = mul(%x, %x) : f32[2]  // a.h:1 in fc
  %2 = mul(%1, %1) : f32[2]
  return loss=%2
  update %0 = %1
}
)");
  EXPECT_EQ(graph->nodes()[3]->id(), 3);
}

TEST(Rewriter, FollowsReplacementsByReplacements) {
  const auto graph = parse_graph(kText);
  rewrite(*graph, [&](Node& node) -> Rewrite {
    if (!node.is("square")) return keep();
    return node.operand(0);
  });
  EXPECT_EQ(to_text(*graph), R"(graph @step {
  %x = input "x" : f32[2]
  %0 = state "w" {role="buffer"} : f32[2]
  return loss=%x
  update %0 = %x
}
)");
  EXPECT_TRUE(verify(*graph).empty());
}

TEST(Rewriter, RefusesAReplacementOfAnotherType) {
  const auto graph = parse_graph(kText);
  EXPECT_THROW(rewrite(*graph,
                       [&](Node& node) -> Rewrite {
                         if (!node.is("square")) return keep();
                         return graph->add("sum", {}, {}, {{DType::kF32, {}}})->result();
                       }),
               InternalError);
}

}  // namespace
}  // namespace monograph::ir
