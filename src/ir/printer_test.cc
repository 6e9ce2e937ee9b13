#include "ir/printer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/parser.h"

namespace monograph::ir {
namespace {

using testing::HasSubstr;

const TensorType kVector{DType::kF32, {2}};

TEST(Printer, NamesInputsByTheirWordOnce) {
  Graph graph;
  Node* x = graph.add_input("x", kVector);
  Node* odd = graph.add_input("not a word", kVector);
  Node* twin = graph.add_input("x", kVector);
  const ValueNames names(graph);
  EXPECT_EQ(names(x->result()), "%x");
  EXPECT_EQ(names(odd->result()), "%0");
  EXPECT_EQ(names(twin->result()), "%1");
  EXPECT_EQ(parse_graph(to_text(graph))->nodes()[1]->name(), "not a word");
}

TEST(Printer, PrintsBrokenGraphs) {
  Graph graph, other;
  Node* foreign = other.add_input("x", kVector);
  Node* node = graph.add("add", {foreign->result(), Value{}}, {}, {kVector});
  graph.add("neg", {{node, 3}}, {}, {kVector});
  EXPECT_THAT(to_text(graph), HasSubstr("%0 = add(%?, %?) : f32[2]\n  %1 = neg(%0.3?) : f32[2]\n"));
  EXPECT_NE(graph.hash(), other.hash());
}

TEST(Printer, ShowsProvenanceWhenAsked) {
  Graph graph;
  graph.add_input("x", kVector)->set_provenance({"mlp.h", 12, "fc1"});
  EXPECT_THAT(to_text(graph, {.provenance = true}), HasSubstr("f32[2]  // mlp.h:12 in fc1\n"));
  EXPECT_THAT(to_text(graph), Not(HasSubstr("mlp.h")));
}

TEST(GraphHash, LeavesNamesAndPlacesOutAndTakesTheRest) {
  const auto hash_of_line = [](const std::string& line) {
    return parse_graph("graph @g {\n%x = input \"x\" : f32[2,2]\n" + line + "\nreturn %y }")
        ->hash();
  };
  const Hash plain = hash_of_line("%y = sum(%x) {axes=[0], keepdim=false} : f32[2]");
  EXPECT_EQ(plain, hash_of_line("%y = sum(%x) {axes=[0], keepdim=false} : f32[2]  // a.h:3 in b"));
  EXPECT_NE(plain, hash_of_line("%y = amax(%x) {axes=[0], keepdim=false} : f32[2]"));
  EXPECT_NE(plain, hash_of_line("%y = sum(%x) {axes=[1], keepdim=false} : f32[2]"));
  EXPECT_NE(plain, hash_of_line("%y = sum(%x) {axes=[0]} : f32[2]"));
  EXPECT_NE(plain, hash_of_line("%y = sum(%x) {axes=[0], keepdim=false} : bf16[2]"));
  EXPECT_NE(plain, hash_of_line("backward %y = sum(%x) {axes=[0], keepdim=false} : f32[2]"));
  EXPECT_NE(plain, hash_of_line("%y = sum(%x, %x) {axes=[0], keepdim=false} : f32[2]"));
}

}  // namespace
}  // namespace monograph::ir
