#include "ir/node_positions.h"

#include <gtest/gtest.h>

#include <string>

namespace monograph::ir {
namespace {

TEST(NodePositions, FindsEachNodeAndNoOther) {
  for (const int size : {0, 1, 2, 3, 100, 5000}) {
    Graph graph, other;
    other.add_input("x", {DType::kF32, {2}});
    for (int i = 0; i < size; ++i) graph.add_input("x" + std::to_string(i), {DType::kF32, {2}});
    const NodePositions positions(graph);
    for (int i = 0; i < size; ++i) EXPECT_EQ(positions(graph.nodes()[i].get()), i);
    EXPECT_EQ(positions(other.nodes()[0].get()), -1);
    EXPECT_EQ(positions(nullptr), -1);
  }
}

}  // namespace
}  // namespace monograph::ir
