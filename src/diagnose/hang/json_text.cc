#include "diagnose/hang/json_text.h"

#include <fmt/format.h>

#include <cstdint>

namespace monograph::diagnose {
namespace {

// Length of the valid UTF-8 sequence at the start of text, 0 if there is none.
size_t utf8_length(std::string_view text) {
  auto at = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0u; };
  auto continues = [&](size_t i) { return (at(i) & 0xC0u) == 0x80u; };
  uint32_t lead = at(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead < 0xF0) {
    bool overlong = lead == 0xE0 && at(1) < 0xA0;
    bool surrogate = lead == 0xED && at(1) >= 0xA0;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead < 0xF5) {
    bool overlong = lead == 0xF0 && at(1) < 0x90;
    bool too_high = lead == 0xF4 && at(1) >= 0x90;
    return continues(1) && continues(2) && continues(3) && !overlong && !too_high ? 4 : 0;
  }
  return 0;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (size_t i = 0; i < text.size();) {
    uint8_t c = static_cast<uint8_t>(text[i]);
    size_t length = utf8_length(text.substr(i));
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++i;
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += text[i++];
    } else if (c < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
      ++i;
    } else {
      out.append(text, i, length);
      i += length;
    }
  }
  out += '"';
}

}  // namespace monograph::diagnose
