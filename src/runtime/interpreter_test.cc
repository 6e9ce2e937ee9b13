#include "runtime/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/parser.h"

namespace monograph::runtime {
namespace {

using ir::DType;
using ir::Literal;
using testing::ElementsAre;

std::vector<double> elements(const Literal& literal) {
  std::vector<double> values;
  for (int64_t i = 0; i < literal.num_elements(); ++i) values.push_back(literal.get(i));
  return values;
}

std::string error_of(const ir::Graph& graph, const InputMap& inputs, StateMap states) {
  try {
    interpret(graph, inputs, states);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

const char* kSwap = R"(graph @swap {
  %x = input "x" : f32[2]
  %0 = state "a" {role="buffer"} : f32[2]
  %1 = state "b" {role="buffer"} : f32[2]
  %2 = add(%0, %x) : f32[2]
  return %2, %0
  update %0 = %1
  update %1 = %0
})";

TEST(Interpreter, ReadsEveryStateBeforeItWritesOne) {
  const auto graph = ir::parse_graph(kSwap);
  StateMap states = {{"a", Literal::from_f32({2}, {1, 2})}, {"b", Literal::from_f32({2}, {3, 4})}};
  const auto outputs = interpret(*graph, {{"x", Literal::from_f32({2}, {10, 20})}}, states);
  EXPECT_THAT(elements(outputs[0]), ElementsAre(11, 22));
  EXPECT_THAT(elements(outputs[1]), ElementsAre(1, 2));
  EXPECT_THAT(elements(states.at("a")), ElementsAre(3, 4));
  EXPECT_THAT(elements(states.at("b")), ElementsAre(1, 2));
}

TEST(Interpreter, RefusesWrongInputsAndStates) {
  const auto graph = ir::parse_graph(kSwap);
  const Literal two = Literal::from_f32({2}, {1, 2}), three = Literal::from_f32({3}, {1, 2, 3});
  const StateMap states = {{"a", two}, {"b", two}};
  EXPECT_EQ(error_of(*graph, {}, states), "input 'x' (f32[2]) is missing; given: none");
  EXPECT_EQ(error_of(*graph, {{"x", three}}, states),
            "input 'x' is f32[3]: the graph takes f32[2]");
  EXPECT_EQ(error_of(*graph, {{"x", Literal::from_i64({2}, {1, 2})}}, states),
            "input 'x' is i64[2]: the graph takes f32[2]");
  EXPECT_EQ(error_of(*graph, {{"x", two}, {"y", two}}, states),
            "input 'y' is unknown: graph 'swap' takes x");
  EXPECT_EQ(error_of(*graph, {{"x", two}, {"a", two}}, states),
            "input 'a' is unknown: graph 'swap' takes x");
  EXPECT_EQ(error_of(*graph, {{"x", two}}, {{"a", two}}),
            "state 'b' (f32[2]) is missing; given: a");
  EXPECT_EQ(error_of(*graph, {{"x", two}}, {{"a", two}, {"b", three}}),
            "state 'b' is f32[3]: the graph takes f32[2]");
}

// 1 + 2^-9 is no bf16: kept in a register, the difference survives.
TEST(Interpreter, RoundsWhereValuesLeaveAFusedBody) {
  const auto body = [](const char* lines) {
    return ir::parse_graph(std::string("graph @g {\n%x = input \"x\" : bf16[1]\n"
                                       "%e = input \"e\" : bf16[1]\n") +
                           lines + "}");
  };
  const auto apart = body(R"(%s = add(%x, %e) : bf16[1]
    %d = sub(%s, %x) : bf16[1]
    return %d)");
  const auto together = body(R"(%d = fused(%x, %e) : bf16[1] {
      %a = input "a" : bf16[1]
      %b = input "b" : bf16[1]
      %s = add(%a, %b) : bf16[1]
      %t = sub(%s, %a) : bf16[1]
      return %t
    }
    return %d)");
  const InputMap inputs = {{"x", Literal::from({DType::kBF16, {1}}, [](auto) { return 1.0; })},
                           {"e", Literal::from({DType::kBF16, {1}}, [](auto) { return 0x1p-9; })}};
  StateMap none;
  EXPECT_THAT(elements(interpret(*apart, inputs, none)[0]), ElementsAre(0));
  const Literal kept = interpret(*together, inputs, none)[0];
  EXPECT_THAT(elements(kept), ElementsAre(0x1p-9));
  EXPECT_EQ(kept.type().dtype, DType::kBF16);
}

TEST(Interpreter, KeepsStatesWhenAReferenceRefuses) {
  const auto graph = ir::parse_graph(R"(graph @g {
    %ids = input "ids" : i64[2]
    %0 = state "w" {role="parameter"} : f32[3,2]
    %1 = embedding(%0, %ids) : f32[2,2]
    %2 = neg(%0) : f32[3,2]
    return %1
    update %0 = %2
  })");
  StateMap states = {{"w", Literal::from_f32({3, 2}, {1, 2, 3, 4, 5, 6})}};
  EXPECT_EQ(error_of(*graph, {{"ids", Literal::from_i64({2}, {0, 3})}}, states),
            "[embedding] id 3 at position 1 of i64[2] is out of range: use 0..2");
  EXPECT_EQ(states.at("w").get(0), 1);
  const auto outputs = interpret(*graph, {{"ids", Literal::from_i64({2}, {2, 0})}}, states);
  EXPECT_THAT(elements(outputs[0]), ElementsAre(5, 6, 1, 2));
  EXPECT_EQ(states.at("w").get(5), -6);
}

}  // namespace
}  // namespace monograph::runtime
