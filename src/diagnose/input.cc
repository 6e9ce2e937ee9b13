#include "diagnose/input.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace monograph::diagnose {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20;

std::string cannot_read(std::string_view path, std::string_view reason) {
  return fmt::format("cannot read '{}': {}", path, reason);
}

// Where the last line of `lines` begins that may be a piece's first and of which at least one byte
// is there; 0 if only the first may.
std::size_t last_boundary(std::string_view lines, Input::MayBegin may_begin) {
  for (std::size_t end = lines.size() - 1; end > 0;) {
    end = lines.rfind('\n', end - 1);
    if (end == std::string_view::npos) return 0;
    if (may_begin == nullptr || may_begin(lines.substr(end + 1))) return end + 1;
  }
  return 0;
}

}  // namespace

struct Input::Stream {
  gzFile file = nullptr;
  ~Stream() {
    if (file != nullptr) gzclose(file);
  }
};

Input::Input(std::string path, const ReadOptions& options)
    : path_(std::move(path)), options_(options), stream_(std::make_unique<Stream>()) {
  std::error_code error;
  if (fs::is_directory(path_, error)) throw UserError(cannot_read(path_, "it is a folder"));
  stream_->file = gzopen(path_.c_str(), "rb");
  if (stream_->file == nullptr) throw UserError(cannot_read(path_, std::strerror(errno)));
  gzbuffer(stream_->file, 256 * 1024);
  std::string head(kHeadBytes, '\0');
  std::size_t filled = 0;
  while (filled < head.size()) {
    const std::size_t got = read(head.data() + filled, head.size() - filled);
    if (got == 0) break;
    filled += got;
  }
  head.resize(filled);
  head_ = std::move(head);
  compressed_ = gzdirect(stream_->file) == 0;
  bytes_read_ = 0;
  if (filled == 0 && truncated_) throw UserError(cannot_read(path_, "damaged gzip data"));
}

Input::~Input() = default;

std::size_t Input::read(char* buffer, std::size_t capacity) {
  if (head_taken_ < head_.size()) {
    const std::size_t count = std::min(capacity, head_.size() - head_taken_);
    std::memcpy(buffer, head_.data() + head_taken_, count);
    head_taken_ += count;
    bytes_read_ += static_cast<std::int64_t>(count);
    return count;
  }
  const auto wanted = static_cast<unsigned>(std::min<std::size_t>(capacity, 1u << 30));
  const int got = gzread(stream_->file, buffer, wanted);
  int code = Z_OK;
  gzerror(stream_->file, &code);
  if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) truncated_ = true;
  if (got <= 0) return 0;
  bytes_read_ += got;
  return static_cast<std::size_t>(got);
}

std::string Input::read_all(std::size_t limit) {
  std::string all;
  for (;;) {
    const std::size_t old_size = all.size();
    all.resize(old_size + kBufferBytes);
    const std::size_t got = read(all.data() + old_size, kBufferBytes);
    all.resize(old_size + got);
    if (got == 0) return all;
    if (all.size() > limit) {
      throw UserError(
          cannot_read(path_, fmt::format("more than {} MiB, the limit for its kind", limit >> 20)));
    }
  }
}

bool Input::next_lines(std::string& lines, MayBegin may_begin) {
  lines.swap(rest_);
  rest_.clear();
  for (std::size_t wanted = options_.piece_bytes;; wanted = lines.size() * 2) {
    while (lines.size() < wanted) {
      const std::size_t old_size = lines.size();
      lines.resize(wanted);
      const std::size_t got = read(lines.data() + old_size, wanted - old_size);
      lines.resize(old_size + got);
      if (got == 0) return !lines.empty();
    }
    std::size_t cut = last_boundary(lines, may_begin);
    if (cut == 0 && lines.size() < kMaxLineBytes) continue;
    if (cut == 0) cut = last_boundary(lines, nullptr);
    if (cut == 0) cut = lines.size();
    rest_.assign(lines, cut);
    lines.resize(cut);
    return true;
  }
}

}  // namespace monograph::diagnose
