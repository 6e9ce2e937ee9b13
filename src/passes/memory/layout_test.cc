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

TEST_F(LayoutTest, AStateThatIsReadLaterIsCopiedAtTheEnd) {
  ir::Node* s = graph_.add_state("s", {ir::DType::kF32, {4, 4}}, ir::StateRole::kBuffer);
  const ir::Value next = build_.matmul(s->result(), s->result());
  graph_.set_update(s, next);
  graph_.add_output("y", build_.matmul(next, s->result()));
  EXPECT_EQ(copies(), 1);
  EXPECT_EQ(of(graph_.update_of(s)), of(s->result()));
}

}  // namespace
}  // namespace monograph::passes
