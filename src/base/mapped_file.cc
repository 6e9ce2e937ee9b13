#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace monograph {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw_user_error("cannot read {} '{}': {}", what, path, std::strerror(errno));
}

struct Descriptor {
  explicit Descriptor(const std::string& path) : number(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (number >= 0) close(number);
  }
  Descriptor(const Descriptor&) = delete;
  int number;
};

}  // namespace

MappedFile::MappedFile(const std::string& what, const std::string& path) : path_(path) {
  const Descriptor file(path);
  struct stat status = {};
  if (file.number < 0 || fstat(file.number, &status) != 0) fail(what, path);
  if (S_ISDIR(status.st_mode)) throw_user_error("{} '{}' is a folder: give one file", what, path);
  if (!S_ISREG(status.st_mode)) {
    throw_user_error("{} '{}' is no regular file: copy it to one", what, path);
  }
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return;
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (memory == MAP_FAILED) fail(what, path);
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    munmap(const_cast<void*>(static_cast<const void*>(bytes_.data())), bytes_.size());
  }
}

}  // namespace monograph
