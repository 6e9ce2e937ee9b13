#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace monograph::codegen {

// What decides the bytes of a compiled kernel, by name: "loop" first, then "source", "compiler",
// ... Stored in the entry, so that a miss can say which part changed.
using KeyParts = std::vector<std::pair<std::string, std::string>>;
std::string key_of(const KeyParts& parts);                          // 32 hex digits
std::string part_of(const KeyParts& parts, std::string_view name);  // empty: has none

// A kernel in the cache: the file kernels/KEY.json.
struct CacheEntry {
  static constexpr int kFormat = 2;  // entries of other versions are built again

  KeyParts key;
  std::string symbol;
  std::string library;     // the hash of its bytes, and its file's name
  std::string note;        // what the compiler said that is worth keeping
  int64_t compile_ns = 0;  // what compiling it took
};

std::string to_text(const CacheEntry& entry);
// The entry, or why it cannot be used. Any bytes may be given.
std::variant<CacheEntry, std::string> parse_entry(std::string_view text);

}  // namespace monograph::codegen
