#include "ir/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "ir/printer.h"

namespace monograph::ir {
namespace {

using testing::HasSubstr;

constexpr const char* kStep = R"(graph @step {
  %tokens = input "tokens" : i64[8,64]
  %0 = state "wte.weight" {role="parameter"} : f32[256,128]
  %1 = embedding(%0, %tokens) : f32[8,64,128]  // gpt.h:31 in wte
  %2, %3 = split_with_sizes(%1) {axis=2, sizes=[64,64]} : f32[8,64,64], f32[8,64,64]
  backward %4 = mul(%2, %3) : f32[8,64,64]  // gpt.h:40
  %5 = fused(%4, %2) : f32[8,64,64] @pair {  // in h.0.attn
    %a = input "a" : f32[8,64,64]
    %b = input "b" : f32[8,64,64]
    %0 = add(%a, %b) : f32[8,64,64]
    return %0
  }
  %6 = sum(%5) {axes=[0,1,2], keepdim=false} : f32[]
  optimizer %7 = mul(%0, %6) : f32[256,128]
  return loss=%6, "grad norm"=%6
  update %0 = %7
}
)";

std::string error_of(std::string_view text) {
  try {
    parse_graph(text, "step.txt");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

// `line` stands in a graph that defines %x and %y of type f32[2].
std::string error_of_line(const std::string& line) {
  return error_of("graph @g {\n%x = input \"x\" : f32[2]\n%y = input \"y\" : f32[2]\n" + line +
                  "\n}");
}

Attribute round_trip(const Attribute& attribute) {
  Graph graph;
  graph.add("op", {}, {{"a", attribute}}, {{DType::kF32, {}}});
  const auto parsed = parse_graph(to_text(graph));
  EXPECT_EQ(parsed->hash(), graph.hash()) << to_text(graph);
  return parsed->nodes()[0]->attributes().at("a");
}

TEST(Parser, ReadsWhatThePrinterWrites) {
  const auto graph = parse_graph(kStep);
  EXPECT_EQ(to_text(*graph, {.provenance = true}), kStep);
  const auto again = parse_graph(to_text(*graph));
  EXPECT_EQ(again->hash(), graph->hash());
  EXPECT_EQ(to_text(*again), to_text(*graph));
}

TEST(Parser, BuildsTheGraph) {
  const auto graph = parse_graph(kStep);
  ASSERT_EQ(graph->num_nodes(), 8);
  const Node& embedding = *graph->nodes()[2];
  EXPECT_EQ(embedding.operand(1).node, graph->find_placeholder("tokens"));
  EXPECT_EQ(embedding.provenance(), (Provenance{"gpt.h", 31, "wte"}));
  EXPECT_EQ(graph->nodes()[3]->attribute<std::vector<int64_t>>("sizes"),
            (std::vector<int64_t>{64, 64}));
  EXPECT_EQ(graph->nodes()[4]->operand(1), graph->nodes()[3]->result(1));
  EXPECT_EQ(graph->nodes()[4]->phase(), Phase::kBackward);
  EXPECT_EQ(graph->nodes()[4]->provenance(), (Provenance{"gpt.h", 40, ""}));
  const Node& fused = *graph->nodes()[5];
  ASSERT_NE(fused.body(), nullptr);
  EXPECT_EQ(fused.body()->name(), "pair");
  EXPECT_EQ(fused.provenance(), (Provenance{"", 0, "h.0.attn"}));
  for (const char* comment : {" frame 3", " gpt.h:4, frame 12", " gpt.h:4 in h.0, frame 1"}) {
    const std::string text =
        fmt::format("graph @g {{\n  %x = input \"x\" : f32[2]  //{}\n  return x=%x\n}}\n", comment);
    EXPECT_EQ(to_text(*parse_graph(text), {.provenance = true}), text);
  }
  EXPECT_EQ(graph->outputs()[1].name, "grad norm");
  EXPECT_EQ(graph->updates()[0].next, graph->nodes()[7]->result());
}

TEST(Parser, KeepsDoublesBitForBit) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double special[] = {0.0,
                            -0.0,
                            1.0,
                            -3.0,
                            0.1,
                            1e300,
                            5e-324,
                            infinity,
                            -infinity,
                            std::numeric_limits<double>::quiet_NaN(),
                            -std::numeric_limits<double>::quiet_NaN(),
                            std::bit_cast<double>(uint64_t{0x7ff0000000000001})};
  std::vector<double> values(std::begin(special), std::end(special));
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) values.push_back(std::bit_cast<double>(random()));
  for (const double value : values) {
    const Attribute back = round_trip(value);
    ASSERT_TRUE(std::holds_alternative<double>(back)) << value;
    EXPECT_EQ(std::bit_cast<uint64_t>(std::get<double>(back)), std::bit_cast<uint64_t>(value));
  }
}

TEST(Parser, KeepsAttributesOfAllKinds) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  const Attribute attributes[] = {true,
                                  false,
                                  int64_t{0},
                                  std::numeric_limits<int64_t>::min(),
                                  std::numeric_limits<int64_t>::max(),
                                  std::string(),
                                  std::string("a \"b\" \\ // c\n"),
                                  bytes,
                                  std::vector<int64_t>{},
                                  std::vector<int64_t>{-1, 2},
                                  DType::kBool,
                                  DType::kBF16,
                                  std::vector<Shape>{},
                                  std::vector<Shape>{Shape{}},
                                  std::vector<Shape>{Shape{2, 3}, Shape{0}}};
  for (const Attribute& attribute : attributes) EXPECT_EQ(round_trip(attribute), attribute);
}

TEST(Parser, NamesWhatItFoundAndExpected) {
  EXPECT_EQ(error_of("graph step"), "step.txt:1:7: found 'step', expected '@'");
  EXPECT_EQ(error_of("graph @g {"),
            "step.txt:1:11: found the end of the text, expected a node, 'return', 'update' or '}'");
  EXPECT_THAT(error_of("graph @g {}\n}"), HasSubstr("2:1: found '}', expected the end"));
  EXPECT_THAT(error_of("graph @g {\n  $\n}"), HasSubstr("step.txt:2:3: found '$', expected"));
  EXPECT_THAT(error_of("graph @g {\n \"a\n}"), HasSubstr("2:2: found a string without an end"));
  EXPECT_EQ(error_of_line("%z = add(%x, %w) : f32[2]"),
            "step.txt:4:14: found %w, expected a value that a line above defines");
  EXPECT_EQ(error_of_line("%x = add(%x, %y) : f32[2]"),
            "step.txt:4:1: found %x defined again, expected a new name");
  EXPECT_THAT(error_of_line("%z = add(%x %y) : f32[2]"), HasSubstr("found '%y', expected ')'"));
  EXPECT_THAT(error_of_line("%z = add(%x, %y) : f33[2]"), HasSubstr("unknown dtype 'f33': use"));
  EXPECT_THAT(error_of_line("%z = add(%x, %y) : f32[-2]"), HasSubstr("dim -2, expected dims of"));
  EXPECT_THAT(error_of_line("%z = add(%x, %y) : f32[1000000000000, 1000000000000]"),
              HasSubstr("2^57 elements"));
  EXPECT_THAT(error_of_line("%z = add(%x, %y) : f32[2], f32[2]"),
              HasSubstr("4:18: found 2 types, expected 1"));
  EXPECT_THAT(error_of_line("%z = add(%x) {a=1, a=2} : f32[2]"), HasSubstr("a second time"));
  EXPECT_THAT(error_of_line("%z = f(%x) {a=9223372036854775808} : f32[2]"),
              HasSubstr("expected a 64-bit integer"));
  EXPECT_THAT(error_of_line("%z = f(%x) {a=1e999} : f32[2]"), HasSubstr("that a double can hold"));
  EXPECT_THAT(error_of_line("%z = f(%x) {a=\"\\q\"} : f32[2]"), HasSubstr("escape"));
  EXPECT_THAT(error_of_line("%z = f(%x) {a=nan(0x1)} : f32[2]"), HasSubstr("bits of a NaN"));
  EXPECT_THAT(error_of_line("% = f(%x) : f32[2]"), HasSubstr("expected '%' and a name"));
  EXPECT_THAT(error_of_line("return %x\nreturn %y"), HasSubstr("5:1: found a second 'return'"));
}

TEST(Parser, RefusesUpdatesThatAreNone) {
  EXPECT_THAT(error_of_line("update %x = %y"), HasSubstr("a result of input, expected a state"));
  const std::string state = "%s = state \"s\" {role=\"buffer\"} : f32[3]\n";
  EXPECT_THAT(error_of_line(state + "update %s = %y"),
              HasSubstr("found a value of type f32[2], expected the state's type f32[3]"));
  EXPECT_THAT(error_of_line(state + "update %s = %s\nupdate %s = %s"),
              HasSubstr("a second update of %s"));
}

TEST(Parser, RefusesBodiesOfOtherTypes) {
  EXPECT_THAT(error_of_line("%z = fused(%x) : f32[2] {\n%a = input \"a\" : f32[2]\n}"),
              HasSubstr("a body that returns the types before it"));
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "%z = fused() : f32[2] {";
  EXPECT_THAT(error_of_line(deep), HasSubstr("nested more than 32 deep"));
}

// Whatever stands in the text: a graph that prints and parses again, or a UserError.
void expect_graph_or_error(const std::string& text) {
  std::unique_ptr<Graph> graph;
  try {
    graph = parse_graph(text);
  } catch (const UserError&) {
    return;
  }
  const std::string printed = to_text(*graph, {.provenance = true});
  EXPECT_EQ(parse_graph(printed)->hash(), graph->hash()) << text;
}

TEST(Parser, SurvivesMutatedText) {
  std::mt19937 random(7);
  const std::string text = kStep;
  const std::string pieces[] = {"%",   "{",  "}",          "(",      ")",
                                "[",   "]",  "=",          ",",      ":",
                                "\"",  "@",  "-",          "9",      "e",
                                "\\",  "\n", "fused",      "inf",    "nan(",
                                "//",  "%0", "input \"\"", "return", "update %0 = %0",
                                "\x80"};
  const auto below = [&](size_t limit) { return random() % limit; };
  for (int round = 0; round < 20000; ++round) {
    std::string mutated = text;
    for (size_t edits = 1 + below(4); edits > 0; --edits) {
      const size_t at = below(mutated.size());
      const size_t kind = below(4);
      if (kind == 0) mutated.erase(at, 1 + below(20));
      if (kind == 1) mutated.insert(at, pieces[below(std::size(pieces))]);
      if (kind == 2) mutated[at] = static_cast<char>(below(256));
      if (kind == 3) mutated.insert(at, text.substr(below(text.size()), below(40)));
      if (mutated.empty()) mutated = "g";
    }
    expect_graph_or_error(mutated);
  }
  for (size_t length = 0; length + 1 < text.size(); ++length) {
    EXPECT_NE(error_of(text.substr(0, length)), "no error") << length;
  }
}

}  // namespace
}  // namespace monograph::ir
