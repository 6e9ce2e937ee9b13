#include "codegen/cache/entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hash.h"

namespace monograph::codegen {
namespace {

using nlohmann::json;

constexpr size_t kHashDigits = 32;

bool is_hash(const std::string& text) {
  return text.size() == kHashDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string text_or_empty(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::string key_of(const KeyParts& parts) {
  Hasher hasher;
  for (const auto& [name, value] : parts) hasher.add(name).add(value);
  return hasher.finish().hex();
}

std::string part_of(const KeyParts& parts, std::string_view name) {
  for (const auto& [part, value] : parts) {
    if (part == name) return value;
  }
  return "";
}

std::string to_text(const CacheEntry& entry) {
  json stored = {{"format", CacheEntry::kFormat},
                 {"key", json::array()},
                 {"symbol", entry.symbol},
                 {"library", entry.library},
                 {"compile_ns", entry.compile_ns}};
  for (const auto& [name, value] : entry.key) stored["key"].push_back({name, value});
  if (!entry.note.empty()) stored["note"] = entry.note;
  return stored.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::variant<CacheEntry, std::string> parse_entry(std::string_view text) {
  const json stored = json::parse(text, nullptr, false);
  if (!stored.is_object()) return "the entry is damaged";
  const auto format = stored.find("format");
  if (format == stored.end() || !format->is_number_integer() || *format != CacheEntry::kFormat) {
    return "the entry is of another version of Monograph";
  }
  CacheEntry entry;
  entry.symbol = text_or_empty(stored, "symbol");
  entry.library = text_or_empty(stored, "library");
  entry.note = text_or_empty(stored, "note");
  const auto key = stored.find("key");
  if (entry.symbol.empty() || !is_hash(entry.library) || key == stored.end() || !key->is_array()) {
    return "the entry is damaged";
  }
  for (const json& part : *key) {
    if (!part.is_array() || part.size() != 2 || !part[0].is_string() || !part[1].is_string()) {
      return "the entry is damaged";
    }
    entry.key.emplace_back(part[0], part[1]);
  }
  const auto time = stored.find("compile_ns");
  if (time != stored.end() && time->is_number_integer()) entry.compile_ns = time->get<int64_t>();
  return entry;
}

}  // namespace monograph::codegen
