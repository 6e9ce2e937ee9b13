#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace monograph {

// A 128-bit XXH3 digest.
struct Hash {
  uint64_t high = 0;
  uint64_t low = 0;

  std::string hex() const;  // 32 lower-case hex digits
  bool operator==(const Hash&) const = default;
  auto operator<=>(const Hash&) const = default;
};

// Feeds bytes into one XXH3-128 digest. Strings are fed with their length, so that ("ab","c") and
// ("a","bc") differ.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  Hasher& add_bytes(const void* data, size_t num_bytes);
  Hasher& add(std::string_view text);
  Hasher& add(int64_t value);
  Hash finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Hash hash_of(std::string_view bytes);

}  // namespace monograph
