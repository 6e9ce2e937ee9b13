#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace monograph::diagnose {

inline constexpr std::size_t kHeadBytes = 64 * 1024;

// How a file is read. What is found does not depend on it.
struct ReadOptions {
  unsigned num_threads = 1;
  std::size_t piece_bytes = std::size_t{1} << 20;  // what one thread takes at a time
};

// One file, plain or gzip, read as a stream of its decompressed bytes.
class Input {
 public:
  // Throws UserError when the file cannot be opened.
  explicit Input(std::string path, const ReadOptions& options = {});
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  const ReadOptions& options() const { return options_; }
  const std::string& path() const { return path_; }
  bool is_compressed() const { return compressed_; }

  // The first bytes, up to kHeadBytes; does not move the stream.
  std::string_view head() const { return head_; }

  // The next bytes, at most `capacity`; 0 at the end. A damaged gzip stream ends early and sets
  // is_truncated().
  std::size_t read(char* buffer, std::size_t capacity);

  // Everything that is left; throws UserError when it is more than `limit` bytes.
  std::string read_all(std::size_t limit);

  // Whether a piece may begin with the line at the front of `rest`. Another line belongs to those
  // before it.
  using MayBegin = bool (*)(std::string_view rest);

  // The next lines, whole and with their ends, of about piece_bytes; false at the end. Without
  // `may_begin` any line may begin a piece. Lines and what belongs together are cut only beyond
  // 64 MiB.
  bool next_lines(std::string& lines, MayBegin may_begin = nullptr);

  bool is_truncated() const { return truncated_; }
  std::int64_t bytes_read() const { return bytes_read_; }

 private:
  struct Stream;

  std::string path_;
  ReadOptions options_;
  std::unique_ptr<Stream> stream_;
  std::string head_;
  std::size_t head_taken_ = 0;
  bool compressed_ = false;
  bool truncated_ = false;
  std::int64_t bytes_read_ = 0;
  std::string rest_;  // for next_lines
};

}  // namespace monograph::diagnose
