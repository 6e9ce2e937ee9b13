#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/finding.h"
#include "diagnose/reader.h"

// Files and folders in, facts out.
namespace monograph::diagnose {

inline constexpr std::size_t kHeadBytes = 64 * 1024;

// One file, plain or gzip, read as a stream of its decompressed bytes.
class Input {
 public:
  // Throws UserError when the file cannot be opened.
  explicit Input(std::string path);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  const std::string& path() const { return path_; }
  bool is_compressed() const { return compressed_; }

  // The first bytes, up to kHeadBytes; does not move the stream.
  std::string_view head() const { return head_; }

  // The next bytes, at most `capacity`; 0 at the end. A damaged gzip stream ends early and sets
  // is_truncated().
  std::size_t read(char* buffer, std::size_t capacity);

  // Everything that is left; throws UserError when it is more than `limit` bytes.
  std::string read_all(std::size_t limit);

  // The next line without its end ("\n" or "\r\n"), valid until the next call; false at the end.
  // A line longer than 64 MiB is cut there.
  bool next_line(std::string_view& line);

  bool is_truncated() const { return truncated_; }
  std::int64_t bytes_read() const { return bytes_read_; }

 private:
  struct Stream;
  std::size_t fill();

  std::string path_;
  std::unique_ptr<Stream> stream_;
  std::string head_;
  std::size_t head_taken_ = 0;
  bool compressed_ = false;
  bool truncated_ = false;
  std::int64_t bytes_read_ = 0;
  std::string buffer_;  // for next_line
  std::size_t line_begin_ = 0;
  std::size_t buffer_end_ = 0;
};

// The files below `paths`, folders searched in depth, in sorted order, hidden files left out.
// A path that does not exist becomes a finding.
std::vector<std::string> find_files(const std::vector<std::string>& paths, Report& report);

// The rank that a file's name says ("..._rank_3_x.log", "rank3.txt", "r3"), else its folder's
// ("rank_3/err.log", torchrun's "attempt_0/3/stderr.log"); -1 if none.
int rank_of_name(std::string_view path);

// The folder of the job that a file belongs to: its own, or the one above if that stands for a
// rank.
std::string job_folder(std::string_view path);

// Reads everything below `paths` with the registered readers, draws all conclusions, sorts.
Report diagnose_paths(const std::vector<std::string>& paths, std::string title);

}  // namespace monograph::diagnose
