#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace monograph::ir {

// [A-Za-z_][A-Za-z0-9_.]*: what stands in graph text without quotes.
bool is_word(std::string_view text);

enum class TokenKind { kWord, kValue, kNumber, kString, kPunctuation, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;     // a value without its '%', a string as written, with quotes
  std::string_view comment;  // what follows "//" after this token on the same line
  int line = 1;
  int column = 1;
};

// Where in which text something is wrong.
[[noreturn]] void throw_parse_error(std::string_view source, const Token& at,
                                    const std::string& message);

// Splits graph text; the last token is kEnd. Views point into `text`. UserError on a character or
// an unfinished string that no token begins with; `source` names the text in messages.
std::vector<Token> lex(std::string_view text, std::string_view source);

// The text of a string token, escapes resolved.
std::string unquoted(const Token& token, std::string_view source);

}  // namespace monograph::ir
