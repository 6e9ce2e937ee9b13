#include "base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace monograph {

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  std::array<char, 1024> pending;  // most of what is fed is a few bytes long
  size_t num_pending = 0;

  ~State() { XXH3_freeState(xxh); }
  void flush() { XXH3_128bits_update(xxh, pending.data(), std::exchange(num_pending, 0)); }
};

std::string Hash::hex() const {
  return fmt::format("{:016x}{:016x}", high, low);
}

Hasher::Hasher() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(state_->xxh);
}
Hasher::~Hasher() = default;

Hasher& Hasher::add_bytes(const void* data, size_t num_bytes) {
  State& state = *state_;
  if (state.num_pending + num_bytes > state.pending.size()) state.flush();
  if (num_bytes > state.pending.size()) {
    XXH3_128bits_update(state.xxh, data, num_bytes);
  } else if (num_bytes > 0) {
    std::memcpy(state.pending.data() + state.num_pending, data, num_bytes);
    state.num_pending += num_bytes;
  }
  return *this;
}

Hasher& Hasher::add(std::string_view text) {
  add(static_cast<int64_t>(text.size()));
  return add_bytes(text.data(), text.size());
}

Hasher& Hasher::add(int64_t value) {
  return add_bytes(&value, sizeof value);
}

Hash Hasher::finish() const {
  state_->flush();
  const XXH128_hash_t digest = XXH3_128bits_digest(state_->xxh);
  return {digest.high64, digest.low64};
}

Hash hash_of(std::string_view bytes) {
  const XXH128_hash_t digest = XXH3_128bits(bytes.data(), bytes.size());
  return {digest.high64, digest.low64};
}

}  // namespace monograph
