#include "comm/process/mapped_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "comm/store/socket.h"

namespace monograph::comm {
namespace {

constexpr int64_t kFdBits = 32;

char* map_shared(int fd, size_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    throw CommError(
        fmt::format("cannot map {} bytes of shared memory: {}", bytes, strerror(errno)));
  }
  return static_cast<char*>(base);
}

}  // namespace

MappedMemory::~MappedMemory() {
  for (const auto& [key, mapping] : mapped_) munmap(mapping.base, mapping.bytes);
}

std::shared_ptr<void> MappedMemory::allocate(int64_t bytes) {
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1) + 4095) / 4096 * 4096;
  const int fd = memfd_create("monograph", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(size)) != 0) {
    const int error = errno;
    if (fd >= 0) close(fd);
    throw CommError(
        fmt::format("cannot make {} bytes of shared memory: {}", size, strerror(error)));
  }
  Socket guard(fd);
  char* base = map_shared(fd, size);
  const std::scoped_lock lock(own_->mutex);
  const int64_t id = (own_->num_made++ << kFdBits) | fd;
  own_->by_base[base] = {id, static_cast<int64_t>(size)};
  auto owner = std::make_shared<Socket>(std::move(guard));
  return {base, [segments = own_, owner, size](void* data) {
            {
              const std::scoped_lock inner(segments->mutex);
              segments->by_base.erase(static_cast<const char*>(data));
            }
            munmap(data, size);
            owner->close();
          }};
}

BufferPlace MappedMemory::locate(const void* data, int64_t bytes) const {
  const std::scoped_lock lock(own_->mutex);
  const char* first = static_cast<const char*>(data);
  auto after = own_->by_base.upper_bound(first);
  if (after == own_->by_base.begin()) return {};
  const auto& [base, segment] = *std::prev(after);
  if (first + bytes > base + segment.bytes) return {};
  return {segment.id, first - base};
}

char* MappedMemory::resolve(int rank, const BufferPlace& place) {
  const std::pair<int, int64_t> key = {rank, place.segment};
  const auto found = mapped_.find(key);
  if (found != mapped_.end()) return found->second.base + place.offset;
  const int64_t fd = place.segment & ((int64_t{1} << kFdBits) - 1);
  const std::string path = fmt::format("/proc/{}/fd/{}", pids_[static_cast<size_t>(rank)], fd);
  const Socket file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status = {};
  if (!file.is_open() || fstat(file.fd(), &status) != 0) {
    throw CommError(fmt::format("cannot open {}: {}", path, strerror(errno)));
  }
  const auto bytes = static_cast<size_t>(status.st_size);
  char* base = map_shared(file.fd(), bytes);
  mapped_[key] = {base, bytes};
  return base + place.offset;
}

}  // namespace monograph::comm
