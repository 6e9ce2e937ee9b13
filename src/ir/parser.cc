#include "ir/parser.h"

#include <bit>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "ir/lexer.h"

namespace monograph::ir {
namespace {

constexpr int kMaxDepth = 32;                    // of bodies in bodies
constexpr int64_t kMaxBytes = int64_t{1} << 60;  // of one tensor
using Scope = std::unordered_map<std::string, Value>;

// Takes ", frame N" from the end of a comment, or " frame N" that is all of it; 0: it has none.
int take_frame(std::string_view& comment) {
  constexpr std::string_view kFrame = " frame ";
  const size_t at = comment.rfind(kFrame);
  if (at == std::string_view::npos || (at > 0 && comment[at - 1] != ',')) return 0;
  int frame = 0;
  const char* const end = comment.data() + comment.size();
  const auto [stop, error] = std::from_chars(comment.data() + at + kFrame.size(), end, frame);
  if (error != std::errc() || stop != end) return 0;
  comment = comment.substr(0, at == 0 ? 0 : at - 1);
  return frame;
}

// What stands after a comment's "//": " file:line in scope, frame N", each part optional; else
// empty.
Provenance provenance_of(std::string_view comment) {
  Provenance result;
  while (!comment.empty() && (comment.back() == '\r' || comment.back() == ' ')) {
    comment.remove_suffix(1);
  }
  result.frame = take_frame(comment);
  std::string_view place = comment;
  if (const size_t in = comment.find(" in "); in != std::string_view::npos) {
    place = comment.substr(0, in);
    result.scope = comment.substr(in + 4);
  }
  if (place.empty()) return result;
  const size_t colon = place.rfind(':');
  if (colon == std::string_view::npos || place[0] != ' ') return {};
  const char* const end = place.data() + place.size();
  const auto [stop, error] = std::from_chars(place.data() + colon + 1, end, result.line);
  if (error != std::errc() || stop != end) return {};
  result.file = place.substr(1, colon - 1);
  return result;
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view source)
      : source_(source), tokens_(lex(text, source)) {}

  std::unique_ptr<Graph> parse() {
    expect_word("graph");
    auto graph = std::make_unique<Graph>(parse_graph_name());
    expect("{");
    parse_body(*graph, 0);
    if (peek().kind != TokenKind::kEnd) fail_expected("the end of the text");
    return graph;
  }

 private:
  const Token& peek() const { return tokens_[position_]; }
  const Token& last() const { return tokens_[position_ - 1]; }
  const Token& next() {
    const Token& token = tokens_[position_];
    if (token.kind != TokenKind::kEnd) ++position_;
    return token;
  }
  bool is(std::string_view punctuation) const {
    return peek().kind == TokenKind::kPunctuation && peek().text == punctuation;
  }
  bool is_word_token(std::string_view word) const {
    return peek().kind == TokenKind::kWord && peek().text == word;
  }
  bool accept(std::string_view punctuation) {
    if (!is(punctuation)) return false;
    next();
    return true;
  }
  bool accept_word(std::string_view word) {
    if (!is_word_token(word)) return false;
    next();
    return true;
  }
  void expect(std::string_view punctuation) {
    if (!accept(punctuation)) fail_expected(fmt::format("'{}'", punctuation));
  }
  void expect_word(std::string_view word) {
    if (!accept_word(word)) fail_expected(fmt::format("'{}'", word));
  }
  const Token& expect_kind(TokenKind kind, std::string_view what) {
    if (peek().kind != kind) fail_expected(what);
    return next();
  }

  [[noreturn]] void fail(const Token& at, const std::string& message) const {
    throw_parse_error(source_, at, message);
  }
  [[noreturn]] void fail_expected(std::string_view expected) const {
    const Token& token = peek();
    const std::string_view sign = token.kind == TokenKind::kValue ? "%" : "";
    const std::string found = token.kind == TokenKind::kEnd
                                  ? "the end of the text"
                                  : fmt::format("'{}{}'", sign, token.text);
    fail(token, fmt::format("found {}, expected {}", found, expected));
  }

  std::string parse_name(std::string_view what) {
    if (peek().kind == TokenKind::kString) return unquoted(next(), source_);
    return std::string(expect_kind(TokenKind::kWord, what).text);
  }
  std::string parse_graph_name() {
    expect("@");
    return parse_name("the graph's name, a word or a string");
  }

  template <typename Number>
  Number number(const Token& token, std::string_view what) const {
    Number value{};
    const char* const end = token.text.data() + token.text.size();
    const auto [stop, error] = std::from_chars(token.text.data(), end, value);
    if (error == std::errc() && stop == end) return value;
    fail(token, fmt::format("found '{}', expected {}", token.text, what));
  }
  int64_t parse_integer() {
    constexpr std::string_view kWhat = "a 64-bit integer";
    return number<int64_t>(expect_kind(TokenKind::kNumber, kWhat), kWhat);
  }
  std::vector<int64_t> parse_integers() {
    expect("[");
    std::vector<int64_t> result;
    while (!is("]")) {
      result.push_back(parse_integer());
      if (!accept(",")) break;
    }
    expect("]");
    return result;
  }
  Shape parse_shape() {
    const Token start = peek();
    std::vector<int64_t> dims = parse_integers();
    int64_t bytes = 8;
    for (const int64_t dim : dims) {
      if (dim < 0) fail(start, fmt::format("found dim {}, expected dims of at least 0", dim));
      if (dim > 0 && bytes > kMaxBytes / dim) fail(start, "found a shape of 2^57 elements or more");
      bytes *= std::max<int64_t>(dim, 1);
    }
    return Shape(std::move(dims));
  }
  DType parse_dtype_token() {
    const Token& token = expect_kind(TokenKind::kWord, "a dtype such as f32");
    try {
      return parse_dtype(token.text);
    } catch (const UserError& error) {
      fail(token, error.what());
    }
  }
  TensorType parse_type() {
    if (peek().kind != TokenKind::kWord) fail_expected("a type such as f32[2,3]");
    const DType dtype = parse_dtype_token();
    return {dtype, parse_shape()};
  }

  // nan(0x7ff8000000000001): any NaN but the usual one.
  double parse_nan() {
    next();
    if (!accept("(")) return std::numeric_limits<double>::quiet_NaN();
    const Token& token = expect_kind(TokenKind::kNumber, "the NaN's bits, 0x...");
    uint64_t bits = 0;
    const char* const end = token.text.data() + token.text.size();
    const bool is_hex = token.text.starts_with("0x");
    const auto parsed = std::from_chars(token.text.data() + (is_hex ? 2 : 0), end, bits, 16);
    const double value = std::bit_cast<double>(bits);
    if (!is_hex || parsed.ec != std::errc() || parsed.ptr != end || value == value) {
      fail(token, fmt::format("found '{}', expected the bits of a NaN, 0x...", token.text));
    }
    expect(")");
    return value;
  }
  Attribute parse_number() {
    const Token& token = next();
    if (token.text == "-inf") return -std::numeric_limits<double>::infinity();
    if (token.text.find_first_not_of("-0123456789") == std::string_view::npos) {
      return number<int64_t>(token, "a 64-bit integer");
    }
    return number<double>(token, "a number that a double can hold");
  }
  Attribute parse_attribute() {
    if (peek().kind == TokenKind::kNumber) return parse_number();
    if (peek().kind == TokenKind::kString) return unquoted(next(), source_);
    if (is("[")) return parse_integers();
    if (accept("(")) {
      std::vector<Shape> shapes;
      while (!is(")")) {
        shapes.push_back(parse_shape());
        if (!accept(",")) break;
      }
      expect(")");
      return shapes;
    }
    if (is_word_token("nan")) return parse_nan();
    if (accept_word("true")) return true;
    if (accept_word("false")) return false;
    if (accept_word("inf")) return std::numeric_limits<double>::infinity();
    if (peek().kind == TokenKind::kWord) return parse_dtype_token();
    fail_expected("an attribute: true, 3, 0.5, \"text\", [1,2], f32 or ([2,3], [4])");
  }
  Attributes parse_attributes() {
    Attributes result;
    if (!accept("{")) return result;
    while (!is("}")) {
      const Token& name = expect_kind(TokenKind::kWord, "an attribute's name");
      expect("=");
      if (!result.emplace(std::string(name.text), parse_attribute()).second) {
        fail(name, fmt::format("found attribute '{}' a second time, expected it once", name.text));
      }
      if (!accept(",")) break;
    }
    expect("}");
    return result;
  }

  Value parse_use(const Scope& scope) {
    const Token& token = expect_kind(TokenKind::kValue, "a value such as %3");
    const auto found = scope.find(std::string(token.text));
    if (found != scope.end()) return found->second;
    fail(token, fmt::format("found %{}, expected a value that a line above defines", token.text));
  }

  Phase parse_phase() {
    for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kOptimizer}) {
      if (accept_word(phase_name(phase))) return phase;
    }
    return Phase::kForward;
  }

  std::vector<TensorType> parse_types(size_t count) {
    const Token& colon = peek();
    expect(":");
    std::vector<TensorType> types = {parse_type()};
    while (accept(",")) types.push_back(parse_type());
    if (types.size() != count) {
      fail(colon,
           fmt::format("found {} types, expected {}: one for each result", types.size(), count));
    }
    return types;
  }

  std::vector<Value> parse_operands(const Scope& scope) {
    expect("(");
    std::vector<Value> operands;
    while (!is(")")) {
      operands.push_back(parse_use(scope));
      if (!accept(",")) break;
    }
    expect(")");
    return operands;
  }

  Node* parse_fused(Graph& graph, std::vector<Value> operands, const std::vector<TensorType>& types,
                    int depth) {
    const Token at = peek();
    if (depth >= kMaxDepth) fail(at, fmt::format("found bodies nested more than {} deep", depth));
    auto body = std::make_unique<Graph>(is("@") ? parse_graph_name() : "body");
    expect("{");
    const std::string_view comment = last().comment;
    parse_body(*body, depth + 1);
    std::vector<TensorType> returned;
    for (const Graph::Output& output : body->outputs()) returned.push_back(output.value.type());
    if (returned != types) fail(at, "expected a body that returns the types before it");
    Node* node = graph.add_fused(std::move(operands), std::move(body));
    node->set_provenance(provenance_of(comment));
    return node;
  }

  void parse_node(Graph& graph, Scope& scope, int depth) {
    const Phase phase = parse_phase();
    std::vector<Token> results;
    do {
      results.push_back(expect_kind(TokenKind::kValue, "a node, 'return', 'update' or '}'"));
      if (results.back().text.empty()) fail(results.back(), "found '%', expected '%' and a name");
    } while (accept(","));
    expect("=");
    const std::string op(expect_kind(TokenKind::kWord, "an op's name").text);
    const bool is_placeholder = op == "input" || op == "state";
    std::string name;
    std::vector<Value> operands;
    if (is_placeholder) {
      name = unquoted(expect_kind(TokenKind::kString, "the placeholder's \"name\""), source_);
    } else {
      operands = parse_operands(scope);
    }
    Attributes attributes = parse_attributes();
    std::vector<TensorType> types = parse_types(results.size());
    Node* node = nullptr;
    if (op == "fused") {
      node = parse_fused(graph, std::move(operands), types, depth);
      for (auto& [key, value] : attributes) node->set_attribute(key, std::move(value));
    } else {
      node = graph.add(op, std::move(operands), std::move(attributes), std::move(types));
      node->set_provenance(provenance_of(last().comment));
    }
    node->set_phase(phase);
    node->set_name(std::move(name));
    for (size_t i = 0; i < results.size(); ++i) {
      const Value value = node->result(static_cast<int>(i));
      if (!scope.emplace(std::string(results[i].text), value).second) {
        fail(results[i],
             fmt::format("found %{0} defined again, expected a new name", results[i].text));
      }
    }
  }

  void parse_return(Graph& graph, const Scope& scope) {
    if (!graph.outputs().empty()) fail(last(), "found a second 'return', expected one");
    do {
      std::string name;
      if (peek().kind != TokenKind::kValue) {
        name = parse_name("name=%value or %value");
        expect("=");
      }
      graph.add_output(std::move(name), parse_use(scope));
    } while (accept(","));
  }

  void parse_update(Graph& graph, const Scope& scope) {
    const Token& at = peek();
    const Value state = parse_use(scope);
    if (!state.node->is("state")) {
      fail(at,
           fmt::format("found %{}, a result of {}, expected a state", at.text, state.node->op()));
    }
    if (graph.update_of(state.node)) {
      fail(at, fmt::format("found a second update of %{}, expected one", at.text));
    }
    expect("=");
    const Token& next_at = peek();
    const Value next = parse_use(scope);
    if (state.index != 0 || next.type() != state.type()) {
      fail(next_at, fmt::format("found a value of type {}, expected the state's type {}",
                                next.type().str(), state.type().str()));
    }
    graph.set_update(state.node, next);
  }

  // Up to and with the closing brace.
  void parse_body(Graph& graph, int depth) {
    Scope scope;
    while (!accept("}")) {
      if (accept_word("return")) {
        parse_return(graph, scope);
      } else if (accept_word("update")) {
        parse_update(graph, scope);
      } else {
        parse_node(graph, scope, depth);
      }
    }
  }

  std::string_view source_;
  std::vector<Token> tokens_;
  size_t position_ = 0;
};

}  // namespace

std::unique_ptr<Graph> parse_graph(std::string_view text, std::string_view source) {
  return Parser(text, source).parse();
}

}  // namespace monograph::ir
