#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace monograph {

// A file that appears under its name whole or not at all: written beside it, synced to disk, then
// renamed.
class AtomicFile {
 public:
  // UserError, beginning with "cannot write `what`", when the folder cannot be written to.
  AtomicFile(std::string what, std::string path);
  ~AtomicFile();  // removes what was not committed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // UserError when the disk is full.
  void write(std::span<const std::byte> bytes);
  // Last call. A file of that name is replaced.
  void commit();

 private:
  [[noreturn]] void fail() const;

  std::string what_, path_, temporary_;
  int descriptor_ = -1;
};

}  // namespace monograph
