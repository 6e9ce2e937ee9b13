#include "train/tensorboard.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace monograph::train {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0);
    table[byte] = crc;
  }
  return table;
}

uint32_t masked(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

// Little-endian bytes of a number, as TFRecord and protocol buffers have them.
template <typename T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

// Fields of a message by wire type: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
std::string key(int field, int wire_type) {
  return varint(static_cast<uint64_t>(field << 3 | wire_type));
}
std::string bytes_field(int field, std::string_view bytes) {
  return key(field, 2) + varint(bytes.size()) + std::string(bytes);
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = make_table();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

TensorBoardWriter::TensorBoardWriter(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  path_ = fmt::format("{}/events.out.tfevents.{:.0f}.monograph", folder, wall_seconds());
  file_.open(path_, std::ios::binary | std::ios::app);
  if (!file_)
    throw_user_error("cannot write TensorBoard events to '{}': {}", path_, std::strerror(errno));
  record(key(1, 1) + raw(wall_seconds()) + bytes_field(3, "brain.Event:2"));
}

void TensorBoardWriter::scalar(std::string_view tag, int64_t step, double value) {
  if (!file_.is_open()) return;
  const std::string entry = bytes_field(1, tag) + key(2, 5) + raw(static_cast<float>(value));
  record(key(1, 1) + raw(wall_seconds()) + key(2, 0) + varint(static_cast<uint64_t>(step)) +
         bytes_field(5, bytes_field(1, entry)));
}

void TensorBoardWriter::record(const std::string& event) {
  const std::string length = raw(static_cast<uint64_t>(event.size()));
  file_ << length << raw(masked(length)) << event << raw(masked(event)) << std::flush;
  if (!file_)
    throw_user_error("cannot write TensorBoard events to '{}': {}", path_, std::strerror(errno));
}

}  // namespace monograph::train
