#include "ir/lexer.h"

#include <cstdint>

#include "base/error.h"

namespace monograph::ir {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word_part(char c) {
  return is_letter(c) || is_digit(c) || c == '.';
}

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  std::vector<Token> run() {
    while (position_ < text_.size()) {
      const char c = text_[position_];
      if (c == '\n') {
        ++position_;
        ++line_;
        line_start_ = position_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++position_;
      } else if (c == '/' && at(1) == '/') {
        take_comment();
      } else {
        take_token(c);
      }
    }
    push(TokenKind::kEnd, 0);
    return std::move(tokens_);
  }

 private:
  char at(size_t offset) const {
    return position_ + offset < text_.size() ? text_[position_ + offset] : '\0';
  }

  void push(TokenKind kind, size_t length, size_t skipped = 0) {
    tokens_.push_back({kind,
                       text_.substr(position_ + skipped, length - skipped),
                       {},
                       line_,
                       static_cast<int>(position_ - line_start_) + 1});
    position_ += length;
  }

  void take_comment() {
    size_t end = text_.find('\n', position_);
    if (end == std::string_view::npos) end = text_.size();
    if (!tokens_.empty() && tokens_.back().line == line_) {
      tokens_.back().comment = text_.substr(position_ + 2, end - position_ - 2);
    }
    position_ = end;
  }

  void take_token(char c) {
    size_t length = 1;
    if (c == '"') return push(TokenKind::kString, string_length());
    if (c == '%') {
      while (is_word_part(at(length))) ++length;
      return push(TokenKind::kValue, length, 1);
    }
    if (is_letter(c)) {
      while (is_word_part(at(length))) ++length;
      return push(TokenKind::kWord, length);
    }
    if (is_digit(c) || c == '-') {
      while (is_word_part(at(length)) || is_exponent_sign(length)) ++length;
      return push(TokenKind::kNumber, length);
    }
    if (std::string_view("{}()[],=:@+*").find(c) == std::string_view::npos)
      fail(fmt::format(
          "found {}, expected a name, %value, number, \"string\" or one of {{}}()[],=:@+*",
          c >= ' ' && c < 0x7f ? fmt::format("'{}'", c)
                               : fmt::format("byte 0x{:02x}", static_cast<uint8_t>(c))));
    push(TokenKind::kPunctuation, 1);
  }

  bool is_exponent_sign(size_t offset) const {
    const char before = at(offset - 1);
    return (at(offset) == '-' || at(offset) == '+') && (before == 'e' || before == 'E');
  }

  size_t string_length() const {
    for (size_t length = 1;; ++length) {
      const char c = at(length);
      if (position_ + length >= text_.size() || c == '\n') {
        fail("found a string without an end, expected '\"' on the same line");
      }
      if (c == '"') return length + 1;
      if (c == '\\') ++length;
    }
  }

  [[noreturn]] void fail(const std::string& message) const {
    Token here;
    here.line = line_;
    here.column = static_cast<int>(position_ - line_start_) + 1;
    throw_parse_error(source_, here, message);
  }

  std::string_view text_, source_;
  size_t position_ = 0, line_start_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

bool is_word(std::string_view text) {
  if (text.empty() || !is_letter(text[0])) return false;
  for (const char c : text) {
    if (!is_word_part(c)) return false;
  }
  return true;
}

void throw_parse_error(std::string_view source, const Token& at, const std::string& message) {
  throw_user_error("{}:{}:{}: {}", source, at.line, at.column, message);
}

std::vector<Token> lex(std::string_view text, std::string_view source) {
  return Lexer(text, source).run();
}

std::string unquoted(const Token& token, std::string_view source) {
  const std::string_view text = token.text.substr(1, token.text.size() - 2);
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      result += text[i];
      continue;
    }
    const char c = ++i < text.size() ? text[i] : '\0';
    if (c == '"' || c == '\\') {
      result += c;
    } else if (c == 'n' || c == 't') {
      result += c == 'n' ? '\n' : '\t';
    } else {
      const int high = c == 'x' && i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
      if (low < 0) {
        throw_parse_error(source, token,
                          fmt::format("string {} has an escape that is none of "
                                      "\\\" \\\\ \\n \\t \\xNN",
                                      token.text));
      }
      result += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return result;
}

}  // namespace monograph::ir
