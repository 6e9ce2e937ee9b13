#include "diagnose/compile/cause_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diagnose/compile/root_cause.h"

namespace monograph::diagnose {
namespace {

using testing::HasSubstr;

Recompile recompile(std::string id, std::string function, int line, std::string entry,
                    std::string reason) {
  Recompile result;
  result.compile_id = id;
  result.function = {function, "/job/a.py", line};
  result.failures = {{entry, reason}};
  return result;
}

// block breaks at line 6; a size changes once, a string three times.
CompileFacts example() {
  CompileFacts facts;
  facts.path = "/logs/a.txt";
  const std::string size = "' size mismatch at index 0. expected 4, actual 5";
  facts.recompiles = {
      recompile("0/1", "block", 4, "0/0", "tensor 'L['x']" + size),
      recompile("1/1", "torch_dynamo_resume_in_block_at_6", 6, "1/0", "tensor 'L['h']" + size),
      recompile("2/1", "f", 14, "2/0", "mode == 'a'"),
      recompile("2/2", "f", 14, "2/1", "mode == 'b'"),
      recompile("2/3", "f", 14, "2/2", "mode == 'c'"),
  };
  GraphBreak graph_break;
  graph_break.file = "/job/a.py";
  graph_break.line = 6;
  graph_break.reason = "print";
  facts.breaks = {graph_break};
  return facts;
}

CompileJob job_of(const CompileFacts& facts) {
  return {"/logs", {&facts}, {-1}, {}};
}

TEST(CauseGraph, RootsAreHeaviestFirst) {
  const CompileFacts facts = example();
  const CauseGraph graph = build_cause_graph(job_of(facts));
  ASSERT_EQ(graph.roots.size(), 3u);
  const CauseNode& first = graph.nodes[graph.roots[0]];
  EXPECT_EQ(first.label, "value of mode: 'a' -> 'b' -> 'c'");
  EXPECT_EQ(first.count, 3);
  const CauseNode& second = graph.nodes[graph.roots[1]];
  EXPECT_EQ(second.label, "size of x at dimension 0: 4 -> 5");
  EXPECT_EQ(second.count, 2);
  EXPECT_EQ(graph.nodes[graph.roots[2]].kind, CauseKind::kBreak);
  EXPECT_EQ(graph.nodes[graph.roots[2]].place, "a.py:6");
}

TEST(CauseGraph, EdgesCarryTheWeight) {
  const CompileFacts facts = example();
  const CauseGraph graph = build_cause_graph(job_of(facts));
  std::int64_t into_changes = 0, into_breaks = 0;
  for (const CauseEdge& edge : graph.edges) {
    EXPECT_LT(static_cast<int>(graph.nodes[edge.from].kind),
              static_cast<int>(graph.nodes[edge.to].kind));
    if (graph.nodes[edge.to].kind == CauseKind::kChange) into_changes += edge.count;
    if (graph.nodes[edge.to].kind == CauseKind::kBreak) into_breaks += edge.count;
  }
  EXPECT_EQ(into_changes, 5);
  EXPECT_EQ(into_breaks, 1);
}

TEST(CauseGraph, SecondsWeighMoreThanCounts) {
  CompileFacts facts = example();
  Compilation slow;
  slow.compile_id = "0/1";
  slow.function = {"block", "/job/a.py", 4};
  slow.seconds = 20;
  slow.finished = true;
  facts.compilations = {slow};
  const CauseGraph graph = build_cause_graph(job_of(facts));
  EXPECT_EQ(graph.nodes[graph.roots[0]].label, "size of x at dimension 0: 4 -> 5");
  EXPECT_DOUBLE_EQ(graph.nodes[graph.roots[0]].seconds, 20);
}

TEST(CauseGraph, TextAndDrawing) {
  const CompileFacts facts = example();
  const CauseGraph graph = build_cause_graph(job_of(facts));
  const std::string text = to_text(graph);
  EXPECT_THAT(text, HasSubstr("torch_dynamo_resume_in_block_at_6 (a.py:6) <- guard size of h at "
                              "dimension 0 (a.py:6), split by the break at a.py:6"));
  EXPECT_THAT(to_dot(graph), HasSubstr("[label=\"3 recompiles\", weight=3]"));
  const std::string svg = to_svg(graph);
  EXPECT_THAT(svg, HasSubstr("<svg"));
  EXPECT_THAT(svg, HasSubstr("value of mode: 'a' -&gt; 'b'"));
}

TEST(RootCause, ContinuationJoinsItsFunction) {
  const CompileFacts facts = example();
  const auto causes = find_recompile_causes(job_of(facts));
  ASSERT_EQ(causes.size(), 2u);
  EXPECT_EQ(causes[1].function.name, "block");
  EXPECT_EQ(causes[1].continuations.size(), 1u);
}

TEST(RootCause, NamesOfContinuations) {
  EXPECT_EQ(continuation_of("torch_dynamo_resume_in_block_at_6").function, "block");
  EXPECT_EQ(continuation_of("torch_dynamo_resume_in_a_at_b_at_12").line, 12);
  EXPECT_EQ(continuation_of("block").line, 0);
  EXPECT_EQ(continuation_of("torch_dynamo_resume_in_x_at_y").line, 0);
}

}  // namespace
}  // namespace monograph::diagnose
