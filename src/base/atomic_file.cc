#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace monograph {

AtomicFile::AtomicFile(std::string what, std::string path)
    : what_(std::move(what)),
      path_(std::move(path)),
      temporary_(fmt::format("{}.{}.partial", path_, getpid())) {
  constexpr int kMode = 0666;  // less the umask
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (descriptor_ < 0) fail();
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void AtomicFile::fail() const {
  throw_user_error("cannot write {} '{}': {}", what_, path_, std::strerror(errno));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0 || rename(temporary_.c_str(), path_.c_str()) != 0) fail();
  close(std::exchange(descriptor_, -1));
  // The new name is on disk once the folder is. Where a file system has no sync of folders, the
  // rename is still atomic.
  const auto folder = std::filesystem::absolute(path_).parent_path();
  const int parent = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent < 0) return;
  fsync(parent);
  close(parent);
}

}  // namespace monograph
