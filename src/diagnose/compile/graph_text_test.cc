#include "diagnose/compile/graph_text.h"

#include <gtest/gtest.h>

namespace monograph::diagnose {
namespace {

std::string graph(std::string body, std::string device = "cuda:0", std::string group = "'0'") {
  std::string text =
      "class GraphModule(torch.nn.Module):\n"
      "    def forward(self, L_x_: \"f32[8, 64][64, 1]DEVICE\", L_w_: \"f32[64][1]DEVICE\"):\n"
      "        l_x_ = L_x_\n        l_w_ = L_w_\n        \n" +
      body;
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
      text.replace(at, from.size(), to);
      at += to.size();
    }
  };
  replace("DEVICE", device);
  replace("GROUP", group);
  return text;
}

const std::string kBody =
    "         # File: /job/mr.py:10 in forward, code: h=torch.relu(x*w)\n"
    "        mul: \"f32[8, 64][64, 1]DEVICE\" = l_x_ * l_w_;  l_x_ = l_w_ = None\n"
    "        h: \"f32[8, 64][64, 1]DEVICE\" = torch.relu(mul);  mul = None\n"
    "         # File: /job/mr.py:13 in forward, code: m=all_reduce(h)\n"
    "        t: \"f32[8, 64]DEVICE\" = torch.ops._c10d_functional.all_reduce(h, 'sum', GROUP)\n"
    "        w: \"f32[8, 64]DEVICE\" = torch.ops._c10d_functional.wait_tensor(t);  t = None\n"
    "        return (w,)\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(GraphText, ParsesNodesWithTheirPlace) {
  const NormalGraph result = parse_graph(graph(kBody));
  ASSERT_EQ(result.nodes.size(), 5u);
  EXPECT_EQ(result.inputs.size(), 2u);
  EXPECT_EQ(result.nodes[1].op, "torch.relu");
  EXPECT_EQ(result.nodes[1].file, "/job/mr.py");
  EXPECT_EQ(result.nodes[1].line, 10);
  EXPECT_EQ(result.nodes[1].text, "h: \"f32[8, 64][64, 1]cuda:0\" = torch.relu(mul)");
  EXPECT_TRUE(result.nodes[2].is_collective);
  EXPECT_FALSE(result.nodes[3].is_collective);
}

TEST(GraphText, WhatDiffersByRankIsLeftOut) {
  const NormalGraph a = parse_graph(graph(kBody));
  // Device, names of values, group name, folder, graph id.
  const std::string other = replaced(
      replaced(replaced(kBody, "mul: ", "mul_7: "), "relu(mul)", "relu(mul_7)"), "/job", "/b/c");
  const NormalGraph b =
      parse_graph(graph("         # graph id: 139869766265856\n" + other, "cuda:3", "'17'"));
  EXPECT_TRUE(is_same_graph(a, b));
  EXPECT_EQ(a.hash, b.hash);
}

TEST(GraphText, AnotherOperationIsFound) {
  const NormalGraph a = parse_graph(graph(kBody));
  const NormalGraph b = parse_graph(graph(replaced(kBody, "torch.relu(mul)", "torch.gelu(mul)")));
  EXPECT_FALSE(is_same_graph(a, b));
  EXPECT_EQ(first_difference(a, b), 1u);
  EXPECT_FALSE(differs_in_numbers_only(a, b));
}

TEST(GraphText, NumbersOnly) {
  const NormalGraph a = parse_graph(graph(kBody));
  std::string other = graph(kBody);
  for (std::size_t at = other.find("[8, "); at != std::string::npos; at = other.find("[8, ")) {
    other.replace(at, 4, "[6, ");
  }
  const NormalGraph b = parse_graph(other);
  EXPECT_FALSE(is_same_graph(a, b));
  EXPECT_TRUE(differs_in_numbers_only(a, b));
}

TEST(GraphText, OrderOfIndependentStatementsIsFree) {
  const std::string one = "        a = torch.sin(l_x_)\n", two = "        b = torch.cos(l_x_)\n",
                    end = "        c = a + b\n        return (c,)\n";
  EXPECT_TRUE(
      is_same_graph(parse_graph(graph(one + two + end)), parse_graph(graph(two + one + end))));
}

TEST(GraphText, OrderOfCollectivesIsNot) {
  const std::string one = "        a = torch.ops._c10d_functional.all_reduce(l_x_, 'sum', '0')\n",
                    two = "        b = torch.ops._c10d_functional.all_gather(l_x_, 4, '0')\n",
                    end = "        c = a + b\n        return (c,)\n";
  EXPECT_FALSE(
      is_same_graph(parse_graph(graph(one + two + end)), parse_graph(graph(two + one + end))));
}

TEST(GraphText, WhichCallsShareAGroupCounts) {
  const auto text = [&](const std::string& first, const std::string& second) {
    return graph("        a = torch.ops._c10d_functional.all_reduce(l_x_, 'sum', '" + first +
                 "')\n        b = torch.ops._c10d_functional.all_reduce(a, 'sum', '" + second +
                 "')\n        return (b,)\n");
  };
  EXPECT_TRUE(is_same_graph(parse_graph(text("1", "2")), parse_graph(text("3", "5"))));
  EXPECT_FALSE(is_same_graph(parse_graph(text("1", "2")), parse_graph(text("3", "3"))));
}

TEST(GraphText, SymbolsAreRenumbered) {
  const auto text = [&](const std::string& s) {
    return graph("        a = l_x_.view(" + s + ", 64)\n        return (a,)\n");
  };
  EXPECT_TRUE(is_same_graph(parse_graph(text("s0")), parse_graph(text("s77"))));
}

TEST(GraphText, InputsOverSeveralLines) {
  const NormalGraph result = parse_graph(
      "class <lambda>(torch.nn.Module):\n    def forward(\n        self,\n"
      "        arg0_1: \"f16[4][1]cuda:0\",  # PlainAOTInput(idx=0)\n"
      "        arg1_1: \"f16[4][1]cuda:0\",  # PlainAOTInput(idx=1)\n    ):\n"
      "        mm = torch.ops.aten.mm.default(arg0_1, arg1_1)\n        return (mm,)\n");
  EXPECT_EQ(result.inputs.size(), 2u);
  EXPECT_EQ(result.nodes.size(), 2u);
}

TEST(GraphText, NormalText) {
  EXPECT_EQ(normal_text("device(type='cuda', index=3)"), "device(type='cuda')");
  EXPECT_EQ(normal_text("f(0x7f12ab, 139869766265856, 1024)"), "f(N, N, 1024)");
  EXPECT_EQ(normal_text("OrderedSet([b, a, c])"), "OrderedSet([a, b, c])");
  EXPECT_EQ(normal_text("{'b', 'a'}"), "{'a', 'b'}");
  EXPECT_EQ(normal_text("{'b': 1, 'a': 2}"), "{'b': 1, 'a': 2}");
  EXPECT_EQ(normal_text("open('/train/step.py')"), "open('step.py')");
}

TEST(GraphText, SurvivesAnything) {
  for (const std::string text : {"", "def forward(", "def forward(self", "class", "((((", "a = ",
                                 " = b", "{{{", "OrderedSet([", "def forward(self):\n = \n"}) {
    parse_graph(text);
    normal_text(text);
  }
}

}  // namespace
}  // namespace monograph::diagnose
