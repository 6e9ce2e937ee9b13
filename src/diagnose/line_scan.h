#pragma once

#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace monograph::diagnose {

// Pieces of lines of text, as every reader of logs takes them apart.

inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Of a name: a letter, a digit or an underscore.
inline bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// The text after the first `mark`; nothing if it is absent.
inline std::optional<std::string_view> after(std::string_view text, std::string_view mark) {
  size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  return text.substr(at + mark.size());
}

// The text before the first `mark`, all of it if absent.
inline std::string_view before(std::string_view text, std::string_view mark) {
  return text.substr(0, text.find(mark));
}

inline std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0)
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.remove_suffix(1);
  return text;
}

// The integer that text begins with, spaces before it allowed. A value that does not fit is no
// integer.
inline std::optional<int64_t> leading_integer(std::string_view text) {
  text = trim(text);
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// The digits that text begins with, nine at most, as a number; -1 if there are none.
inline int leading_digits(std::string_view text) {
  int value = 0;
  std::size_t at = 0;
  while (at < text.size() && at < 9 && is_digit(text[at])) value = value * 10 + (text[at++] - '0');
  return at == 0 ? -1 : value;
}

// The integer right after the first `mark`.
inline std::optional<int64_t> integer_after(std::string_view text, std::string_view mark) {
  std::optional<std::string_view> rest = after(text, mark);
  return rest ? leading_integer(*rest) : std::nullopt;
}

inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// "0, 1, 5" up to the first character that belongs to no list; at most a million ranks.
inline std::vector<int> leading_ranks(std::string_view text) {
  std::vector<int> ranks;
  size_t i = 0;
  while (i < text.size() && ranks.size() < 1'000'000) {
    if (is_digit(text[i])) {
      int rank = 0;
      auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), rank);
      if (error != std::errc()) break;
      ranks.push_back(rank);
      i = static_cast<size_t>(end - text.data());
    } else if (text[i] == ',' || text[i] == ' ') {
      ++i;
    } else {
      break;
    }
  }
  return ranks;
}

// Calls `visit` with each line of `lines` without its end ("\n" or "\r\n").
template <typename Visit>
void for_each_line(std::string_view lines, const Visit& visit) {
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    visit(line);
  }
}

}  // namespace monograph::diagnose
