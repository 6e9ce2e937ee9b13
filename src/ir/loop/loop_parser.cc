#include "ir/loop/loop_parser.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ir/lexer.h"

namespace monograph::ir {
namespace {

class LoopParser {
 public:
  LoopParser(std::string_view text, std::string_view source)
      : source_(source), tokens_(lex(text, source)) {}

  Loop parse() {
    parse_head();
    expect("{");
    while (peek().kind == TokenKind::kWord && is_buffer_name(peek().text)) parse_buffer();
    while (!accept("}")) loop_.instructions.push_back(parse_instruction());
    if (peek().kind != TokenKind::kEnd) fail_expected("the end of the text");
    return std::move(loop_);
  }

 private:
  const Token& peek() const { return tokens_[position_]; }
  const Token& next() {
    const Token& token = tokens_[position_];
    if (token.kind != TokenKind::kEnd) ++position_;
    return token;
  }
  bool accept(std::string_view text) {
    const bool is_mark = peek().kind == TokenKind::kPunctuation || peek().kind == TokenKind::kWord;
    if (!is_mark || peek().text != text) return false;
    next();
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) fail_expected(fmt::format("'{}'", text));
  }
  [[noreturn]] void fail_expected(std::string_view what) const {
    throw_parse_error(source_, peek(), fmt::format("found '{}', expected {}", peek().text, what));
  }

  template <typename T>
  bool to_number(std::string_view text, T* value) const {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, *value);
    return error == std::errc() && stop == end;
  }
  int64_t parse_int() {
    int64_t value = 0;
    if (peek().kind != TokenKind::kNumber || !to_number(peek().text, &value)) {
      fail_expected("an integer");
    }
    next();
    return value;
  }
  std::vector<int64_t> parse_ints() {
    std::vector<int64_t> values;
    expect("[");
    while (!accept("]")) {
      values.push_back(parse_int());
      if (peek().text != "]") expect(",");
    }
    return values;
  }

  static bool is_buffer_name(std::string_view text) {
    return text.size() >= 2 && text[0] == 'b' &&
           text.find_first_not_of("0123456789", 1) == text.npos;
  }
  int parse_buffer_name() {
    int number = 0;
    if (!is_buffer_name(peek().text) || !to_number(peek().text.substr(1), &number)) {
      fail_expected("a buffer such as b0");
    }
    next();
    return number;
  }
  int parse_value() {
    int number = 0;
    if (peek().kind != TokenKind::kValue || !to_number(peek().text, &number)) {
      fail_expected("a value such as %0");
    }
    next();
    return number;
  }
  std::vector<int> parse_values() {
    std::vector<int> values;
    expect("(");
    while (!accept(")")) {
      values.push_back(parse_value());
      if (peek().text != ")") expect(",");
    }
    return values;
  }

  void parse_head() {
    expect("loop");
    expect("rows");
    loop_.row_extents = parse_ints();
    expect("inner");
    loop_.inner_extent = parse_int();
    expect("blocks");
    loop_.num_blocks = parse_int();
    expect("of");
    if (accept("inner")) {
      loop_.split = Loop::Split::kInner;
    } else {
      expect("rows");
    }
    expect("sweeps");
    loop_.num_sweeps = static_cast<int>(parse_int());
    if (accept("partials")) {
      loop_.partials_buffer = parse_buffer_name();
      loop_.partial_offsets = parse_ints();
    }
  }

  void parse_buffer() {
    if (parse_buffer_name() != static_cast<int>(loop_.buffers.size())) {
      --position_;
      fail_expected(fmt::format("b{}, the next number", loop_.buffers.size()));
    }
    expect("=");
    LoopBuffer buffer;
    if (accept("output")) {
      buffer.use = LoopBuffer::Use::kOutput;
    } else if (accept("workspace")) {
      buffer.use = LoopBuffer::Use::kWorkspace;
    } else if (!accept("input")) {
      fail_expected("input, output or workspace");
    }
    buffer.dtype = parse_dtype(next().text);
    if (buffer.use == LoopBuffer::Use::kWorkspace) {
      expect("[");
      buffer.num_elements = parse_int();
      expect("]");
    }
    if (accept("aligned")) buffer.alignment = parse_int();
    loop_.buffers.push_back(buffer);
  }

  // "[8192*r0 + r1 + j + 128*%3 + 5]"
  void parse_terms(Access* access) {
    expect("[");
    do {
      int64_t stride = 1;
      if (peek().kind == TokenKind::kNumber) {
        stride = parse_int();
        if (!accept("*")) {
          access->offset += stride;
          continue;
        }
      }
      parse_term(access, stride);
    } while (accept("+"));
    expect("]");
  }

  void parse_term(Access* access, int64_t stride) {
    if (peek().kind == TokenKind::kValue) {
      access->index = parse_value();
      access->index_stride = stride;
      return;
    }
    size_t axis = 0;
    if (accept("j")) {
      access->inner_stride = stride;
    } else if (peek().text.starts_with("r") && to_number(peek().text.substr(1), &axis) &&
               axis < loop_.row_extents.size()) {
      next();
      if (access->row_strides.size() <= axis) access->row_strides.resize(axis + 1);
      access->row_strides[axis] = stride;
    } else {
      fail_expected("a row index r0.., j, or a value");
    }
  }

  void parse_access(Access* access) {
    access->buffer = parse_buffer_name();
    parse_terms(access);
  }

  Instruction parse_instruction() {
    const bool has_name = peek().kind == TokenKind::kValue;
    if (has_name && parse_value() != static_cast<int>(loop_.instructions.size())) {
      --position_;
      fail_expected(
          fmt::format("%{}, the position among the instructions", loop_.instructions.size()));
    }
    if (has_name) expect("=");
    Instruction i;
    i.domain = parse_domain();
    i.type = parse_type();
    parse_computation(&i);
    i.keeps_inner = accept("keeps_inner");
    i.keep = accept("keep");
    if (accept("@")) i.sweep = static_cast<int>(parse_int());
    return i;
  }

  Domain parse_domain() {
    if (accept("scalar")) return Domain::kScalar;
    if (accept("row")) return Domain::kRow;
    if (accept("element")) return Domain::kElement;
    fail_expected("scalar, row or element");
  }
  RegisterType parse_type() {
    if (accept("f32")) return RegisterType::kF32;
    if (accept("f64")) return RegisterType::kF64;
    if (accept("i64")) return RegisterType::kI64;
    if (accept("bool")) return RegisterType::kBool;
    fail_expected("f32, f64, i64 or bool");
  }

  void parse_computation(Instruction* i) {
    if (accept("constant")) {
      i->kind = InstructionKind::kConstant;
      i->value = parse_constant();
    } else if (accept("load")) {
      i->kind = InstructionKind::kLoad;
      parse_access(&i->access);
    } else if (accept("index")) {
      i->kind = InstructionKind::kIndex;
      parse_terms(&i->access);
    } else if (accept("argument")) {
      i->kind = InstructionKind::kArgument;
      i->argument = static_cast<int>(parse_int());
    } else if (accept("philox")) {
      i->kind = InstructionKind::kPhilox;
      i->operands = parse_values();
      parse_terms(&i->access);
    } else if (accept("segment_sum")) {
      i->kind = InstructionKind::kSegmentSum;
      i->operands = parse_values();
      parse_access(&i->access);
      expect("order");
      i->access.index_stride = parse_int();
      i->order_buffer = parse_buffer_name();
    } else if (peek().text.starts_with("reduce_")) {
      i->kind = InstructionKind::kReduce;
      i->reduction = parse_reduction("reduce_");
      i->operands = parse_values();
    } else {
      parse_sink_or_apply(i);
    }
  }

  void parse_sink_or_apply(Instruction* i) {
    const bool is_store = peek().text == "store";
    if (is_store || peek().text.starts_with("accumulate_")) {
      i->kind = is_store ? InstructionKind::kStore : InstructionKind::kAccumulate;
      if (is_store) {
        next();
      } else {
        i->reduction = parse_reduction("accumulate_");
      }
      parse_access(&i->access);
      expect("=");
      i->operands = {parse_value()};
      return;
    }
    i->kind = InstructionKind::kApply;
    if (!find_scalar_op(peek().text, &i->op)) fail_expected("a computation");
    next();
    i->operands = parse_values();
  }

  Reduction parse_reduction(std::string_view prefix) {
    const std::string_view kind = peek().text.substr(prefix.size());
    if (kind != "sum" && kind != "max") fail_expected(fmt::format("{0}sum or {0}max", prefix));
    next();
    return kind == "sum" ? Reduction::kSum : Reduction::kMax;
  }

  double parse_constant() {
    if (accept("true")) return 1;
    if (accept("false")) return 0;
    if (accept("inf")) return std::numeric_limits<double>::infinity();
    if (accept("nan")) return std::numeric_limits<double>::quiet_NaN();
    double value = 0;
    if (!to_number(peek().text, &value)) fail_expected("a number");
    next();
    return value;
  }

  std::string_view source_;
  std::vector<Token> tokens_;
  size_t position_ = 0;
  Loop loop_;
};

}  // namespace

Loop parse_loop(std::string_view text, std::string_view source) {
  Loop loop = LoopParser(text, source).parse();
  verify(loop);
  return loop;
}

}  // namespace monograph::ir
