#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace monograph {

// A file's bytes, read through the page cache when they are used. Read-only; a file that somebody
// cuts short meanwhile ends the process with SIGBUS, as mapped files do.
class MappedFile {
 public:
  // UserError, beginning with `what` ("--data", "weights"), when it is a folder or cannot be read.
  MappedFile(const std::string& what, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;  // empty: nothing is mapped
};

}  // namespace monograph
