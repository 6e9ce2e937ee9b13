#include "ir/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/parser.h"

namespace monograph::ir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const TensorType kVector{DType::kF32, {2}};

constexpr const char* kGood = R"(graph @step {
  %x = input "x" : f32[2]
  %0 = state "w" {role="parameter"} : f32[2]
  %1 = mul(%x, %0) : f32[2]
  %2 = fused(%1) : f32[2] {
    %a = input "a" : f32[2]
    %0 = neg(%a) : f32[2]
    return %0
  }
  return loss=%1
  update %0 = %2
})";

std::vector<std::string> codes(const Graph& graph, VerifyOptions options = {}) {
  std::vector<std::string> result;
  for (const Violation& violation : verify(graph, options)) result.push_back(violation.code);
  return result;
}

// Breaks the good graph; what its verifier says is returned.
template <typename Break>
std::vector<std::string> codes_after(Break break_it) {
  const auto graph = parse_graph(kGood);
  break_it(*graph);
  return codes(*graph);
}

TEST(Verifier, AcceptsAGoodGraph) {
  EXPECT_THAT(codes_after([](Graph&) {}), IsEmpty());
}

TEST(Verifier, V1_1_V1_16_PlaceholderNamesAreUniqueAndNotEmpty) {
  EXPECT_THAT(codes_after([](Graph& graph) { graph.add_input("w", kVector); }),
              ElementsAre("V1.16"));
  EXPECT_THAT(codes_after([](Graph& graph) { graph.add_input("", kVector); }), ElementsAre("V1.1"));
}

TEST(Verifier, V1_2_OperandsAreValues) {
  EXPECT_THAT(codes_after([](Graph& graph) { graph.nodes()[2]->set_operand(0, {}); }),
              ElementsAre("V1.2"));
  EXPECT_THAT(codes_after([](Graph& graph) { graph.add_output("none", {}); }), ElementsAre("V1.2"));
}

TEST(Verifier, V1_3_ValuesBelongToTheGraph) {
  Graph other;
  const Value foreign = other.add_input("x", kVector)->result();
  EXPECT_THAT(codes_after([&](Graph& graph) { graph.nodes()[2]->set_operand(0, foreign); }),
              ElementsAre("V1.3"));
  EXPECT_THAT(codes_after([&](Graph& graph) { graph.add_output("far", foreign); }),
              ElementsAre("V1.3"));
  EXPECT_THAT(codes_after([&](Graph& graph) { graph.set_update(graph.states()[0], foreign); }),
              ElementsAre("V1.3", "V1.14"));
}

TEST(Verifier, V1_4_OperandsAreDefinedBefore) {
  EXPECT_THAT(codes_after([](Graph& graph) {
                graph.nodes()[2]->set_operand(0, graph.nodes()[3]->result());
              }),
              ElementsAre("V1.4"));
  EXPECT_THAT(codes_after([](Graph& graph) {
                graph.nodes()[2]->set_operand(0, graph.nodes()[2]->result());
              }),
              ElementsAre("V1.4"));
}

TEST(Verifier, V1_5_ResultIndicesAreInRange) {
  EXPECT_THAT(codes_after([](Graph& graph) {
                graph.nodes()[2]->set_operand(0, graph.nodes()[1]->result(1));
              }),
              ElementsAre("V1.5"));
  EXPECT_THAT(
      codes_after([](Graph& graph) { graph.add_output("y", graph.nodes()[1]->result(-1)); }),
      ElementsAre("V1.5"));
}

TEST(Verifier, V1_6_V1_15_NodesHaveAnOpAndResults) {
  EXPECT_THAT(codes_after([](Graph& graph) {
                graph.add_output("y", graph.add("", {}, {}, {kVector})->result());
              }),
              ElementsAre("V1.6"));
  EXPECT_THAT(codes_after([](Graph& graph) { graph.add("neg", {}, {}, {}); }),
              ElementsAre("V1.15", "V1.14"));
}

TEST(Verifier, V1_7_V1_17_PlaceholdersAreWellFormed) {
  EXPECT_THAT(codes_after([](Graph& graph) {
                graph.states()[0]->set_attribute("role", std::string("guest"));
              }),
              ElementsAre("V1.17"));
  EXPECT_THAT(
      codes_after([](Graph& graph) { graph.states()[0]->set_attribute("role", int64_t{1}); }),
      ElementsAre("V1.17"));
  EXPECT_THAT(codes_after([](Graph& graph) {
                graph.add("input", {graph.nodes()[0]->result()}, {}, {kVector})->set_name("y");
              }),
              ElementsAre("V1.7"));
}

TEST(Verifier, V1_8_SomethingIsReturned) {
  Graph silent;
  silent.add_input("x", kVector);
  EXPECT_THAT(codes(silent), ElementsAre("V1.8"));
  EXPECT_THAT(codes_after([](Graph& graph) { graph.nodes()[3]->body()->clear_outputs(); }),
              ElementsAre("V1.19", "V1.8", "V1.14"));
  EXPECT_THAT(codes_after([](Graph& graph) { graph.clear_outputs(); }), IsEmpty());
}

TEST(Verifier, V1_9_V1_24_OutputNamesAreUniqueAndNotEmpty) {
  EXPECT_THAT(
      codes_after([](Graph& graph) { graph.add_output("loss", graph.nodes()[2]->result()); }),
      ElementsAre("V1.24"));
  EXPECT_THAT(codes_after([](Graph& graph) { graph.add_output("", graph.nodes()[2]->result()); }),
              ElementsAre("V1.9"));
}

TEST(Verifier, V1_10_V1_27_UpdatesAreOfStatesOnceAndOfTheirType) {
  Graph other;
  Node* foreign = other.add_state("w", kVector, StateRole::kBuffer);
  EXPECT_THAT(
      codes_after([&](Graph& graph) { graph.set_update(foreign, graph.nodes()[2]->result()); }),
      ElementsAre("V1.10"));
  Graph graph;
  Node* a = graph.add_state("a", kVector, StateRole::kBuffer);
  Node* b = graph.add_state("b", kVector, StateRole::kBuffer);
  Node* wide = graph.add("wide", {}, {}, {{DType::kF64, {2}}});
  graph.set_update(b, a->result());
  graph.substitute({{a->result(), wide->result()}});
  EXPECT_THAT(codes(graph), ElementsAre("V1.27"));
}

TEST(Verifier, V1_11_FusedNodesAndOnlyTheyHaveABody) {
  EXPECT_THAT(codes_after([](Graph& graph) {
                graph.add_output("y", graph.add("fused", {}, {}, {kVector})->result());
              }),
              ElementsAre("V1.11"));
}

TEST(Verifier, V1_12_V1_19_BodiesTakeTheOperandsAndReturnTheResults) {
  EXPECT_THAT(codes_after([](Graph& graph) { graph.nodes()[3]->body()->add_input("b", kVector); }),
              ElementsAre("V1.12"));
  EXPECT_THAT(codes_after([](Graph& graph) {
                Graph& body = *graph.nodes()[3]->body();
                body.add_output("", body.nodes()[0]->result());
              }),
              ElementsAre("V1.19"));
}

TEST(Verifier, V1_13_V1_25_BodiesHoldNoState) {
  EXPECT_THAT(codes_after([](Graph& graph) {
                Graph& body = *graph.nodes()[3]->body();
                Node* state = body.add_state("s", kVector, StateRole::kBuffer);
                body.set_update(state, body.nodes()[0]->result());
              }),
              ElementsAre("V1.13", "V1.25"));
}

TEST(Verifier, V1_14_EveryNodeHasAnEffect) {
  const auto graph = parse_graph(kGood);
  graph->add("neg", {graph->nodes()[0]->result()}, {}, {kVector});
  EXPECT_THAT(codes(*graph), ElementsAre("V1.14"));
  EXPECT_THAT(codes(*graph, {.dead_nodes = false}), IsEmpty());
}

TEST(Verifier, LooksIntoBodiesAndSaysWhere) {
  const auto graph = parse_graph(kGood);
  graph->nodes()[3]->body()->nodes()[1]->set_operand(0, {});
  EXPECT_THAT(to_text(verify(*graph)),
              HasSubstr("V1.2 body of %2: %0 = neg(%?) : f32[2]: operand 0 is no value"));
}

}  // namespace
}  // namespace monograph::ir
