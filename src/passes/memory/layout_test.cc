#include "passes/memory/layout.h"

#include <gtest/gtest.h>

#include "ops/builder.h"
#include "passes/fuse/fuse.h"

namespace monograph::passes {
namespace {

class LayoutTest : public ::testing::Test {
 protected:
  ir::Value input(const char* name, ir::Shape shape) {
    return graph_.add_input(name, {ir::DType::kF32, std::move(shape)})->result();
  }
  // Fuses, lays out, and counts the copies that were needed.
  int copies() {
    fuse(graph_, context_);
    layout_ = assign_layout(graph_, states_, context_);
    int count = 0;
    for (const auto& node : graph_.nodes()) {
      if (node->body() == nullptr) continue;
      const auto& nodes = node->body()->nodes();
      count += nodes.size() == 2 && nodes[1]->is("clone");
    }
    return count;
  }
  const Placement& of(ir::Value value) { return layout_.placements.at(value); }

  ir::Graph graph_;
  ops::Builder build_{graph_};
  StateLayout states_;
  PassContext context_;
  Layout layout_;
};

TEST_F(LayoutTest, AProductIsWrittenInTheOrderInWhichItsReshapedViewIsRead) {
  const ir::Value heads = build_.matmul(input("p", {2, 3, 8, 8}), input("v", {2, 3, 8, 4}));
  const ir::Value merged = build_.reshape(build_.permute(heads, {0, 2, 1, 3}), {2, 8, 12});
  const ir::Value y = build_.matmul(merged, input("w", {12, 5}));
  graph_.add_output("y", y);
  EXPECT_EQ(copies(), 0);
  EXPECT_EQ(of(heads).strides, (std::vector<int64_t>{96, 4, 12, 1}));
  EXPECT_EQ(of(merged).strides, (std::vector<int64_t>{96, 12, 1}));
}

TEST_F(LayoutTest, PartsOfACatAreWrittenSideBySide) {
  const ir::Value a = build_.matmul(input("a", {4, 3}), input("b", {3, 2}));
  const ir::Value c = build_.matmul(input("c", {4, 3}), input("d", {3, 6}));
  const ir::Value both = build_.emit("cat", {a, c}, {{"axis", int64_t{1}}});
  graph_.add_output("y", build_.matmul(both, input("w", {8, 5})));
  EXPECT_EQ(copies(), 0);
  EXPECT_EQ(of(a).buffer, of(c).buffer);
  EXPECT_EQ(of(c).offset - of(a).offset, 2);
  EXPECT_EQ(of(a).strides, (std::vector<int64_t>{8, 1}));
}

TEST_F(LayoutTest, PackedStatesLieTogetherAndAreUpdatedInPlace) {
  const auto state = [&](const char* name, ir::Shape shape) {
    return graph_.add_state(name, {ir::DType::kF32, std::move(shape)}, ir::StateRole::kParameter);
  };
  ir::Node *w = state("w", {3, 5}), *b = state("b", {7});
  const ir::Value flat =
      build_.emit("pack", {w->result(), b->result()}, {{"alignment", int64_t{64}}});
  ir::Node* parts = build_.emit_node(
      "unpack", {build_.mul(flat, 0.5)},
      {{"shapes", std::vector<ir::Shape>{{3, 5}, {7}}}, {"alignment", int64_t{64}}});
  graph_.set_update(w, parts->result(0));
  graph_.set_update(b, parts->result(1));
  EXPECT_EQ(copies(), 0);
  EXPECT_EQ(of(b->result()).offset - of(w->result()).offset, 64);
  EXPECT_EQ(of(parts->result(1)), of(b->result()));
}

// With one index, a dim's stride says nothing: the parts are where they belong all the same.
TEST_F(LayoutTest, PartsWithADimOfOneAreWrittenInPlace) {
  const auto part = [&](const char* x, const char* y) {
    const ir::Value rows = build_.matmul(input(x, {6, 3}), input(y, {3, 8}));
    return build_.reshape(build_.permute(build_.reshape(rows, {1, 6, 2, 4}), {0, 2, 1, 3}),
                          {1, 2, 6, 4});
  };
  const auto flat = [&](ir::Value heads) {
    return build_.reshape(build_.permute(heads, {0, 2, 1, 3}), {1, 6, 8});
  };
  const ir::Value joined =
      build_.emit("cat", {flat(part("a", "b")), flat(part("c", "d"))}, {{"axis", int64_t{2}}});
  graph_.add_output("y", build_.matmul(build_.reshape(joined, {6, 16}), input("e", {16, 2})));
  EXPECT_EQ(copies(), 0);
}

TEST_F(LayoutTest, AStateThatIsReadLaterIsCopiedAtTheEnd) {
  ir::Node* s = graph_.add_state("s", {ir::DType::kF32, {4, 4}}, ir::StateRole::kBuffer);
  const ir::Value next = build_.matmul(s->result(), s->result());
  graph_.set_update(s, next);
  graph_.add_output("y", build_.matmul(next, s->result()));
  EXPECT_EQ(copies(), 1);
  EXPECT_EQ(of(graph_.update_of(s)), of(s->result()));
}

ir::Attributes reduction(int64_t begin, int64_t count) {
  return {{"axis", std::string("data")}, {"size", int64_t{2}}, {"op", std::string("sum")},
          {"alignment", int64_t{64}},    {"begin", begin},     {"count", count}};
}

TEST_F(LayoutTest, BucketsThatShareAGradientLieSideBySideWithoutCopies) {
  const ir::Value a = build_.matmul(input("a", {40, 3}), input("b", {3, 40}));  // 1600 elements
  const ir::Value c = build_.matmul(input("c", {30, 3}), input("d", {3, 50}));  // 1500, of 1536
  const auto bucket = [&](std::vector<ir::Value> xs, int64_t begin, int64_t count) {
    const ir::Value s = build_.emit("all_reduce_start", std::move(xs), reduction(begin, count));
    return build_.emit("all_reduce_done", {s});
  };
  const ir::Value first = bucket({a}, 0, 1024), second = bucket({a, c}, 1024, 2112);
  const ir::Value flat = build_.emit("cat", {first, second}, {{"axis", int64_t{0}}});
  graph_.add_output("y", build_.emit("exp", {flat}));
  EXPECT_EQ(copies(), 0);
  const auto gradients = static_cast<int>(ir::Segment::kGradients);
  EXPECT_EQ(of(a), (Placement{gradients, 0, {40, 1}}));
  EXPECT_EQ(of(c), (Placement{gradients, 1600, {50, 1}}));
  EXPECT_EQ(of(first), (Placement{gradients, 0, {1}}));
  EXPECT_EQ(of(second), (Placement{gradients, 1024, {1}}));
}

TEST_F(LayoutTest, WhatOthersReadIsCopiedBeforeACollectiveWritesOverIt) {
  const ir::Value a = build_.matmul(input("a", {8, 3}), input("b", {3, 8}));
  const ir::Value s = build_.emit("all_reduce_start", {a}, reduction(0, 64));
  const ir::Value sum = build_.reshape(build_.emit("all_reduce_done", {s}), {8, 8});
  graph_.add_output("y", build_.matmul(a, sum));
  EXPECT_EQ(copies(), 1);
  EXPECT_NE(of(a).buffer, of(sum).buffer);
}

TEST_F(LayoutTest, AStateThatIsSentIsNotWrittenOverBeforeItArrived) {
  ir::Node* w = graph_.add_state("w", {ir::DType::kF32, {8}}, ir::StateRole::kParameter);
  const ir::Value s = build_.emit("all_gather_start", {w->result()},
                                  {{"axis", std::string("data")}, {"size", int64_t{2}}});
  const ir::Value next = build_.emit("exp", {w->result()});
  graph_.add_output("y", build_.emit("exp", {build_.emit("all_gather_done", {s})}));
  graph_.set_update(w, next);
  EXPECT_EQ(copies(), 1);  // from scratch into the state, at the end
}

}  // namespace
}  // namespace monograph::passes
