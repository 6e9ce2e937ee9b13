#include "comm/store/frame.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace monograph::comm {
namespace {

// Waits for the socket; CommError when the deadline passed.
void wait_for(const Socket& socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) throw CommError("the job's store does not answer");
    pollfd waiting = {socket.fd(), events, 0};
    if (poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, 60'000))) > 0) return;
  }
}

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

FrameWriter& FrameWriter::add(int64_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

FrameWriter& FrameWriter::add(std::string_view text) {
  add(static_cast<int64_t>(text.size()));
  bytes_.append(text);
  return *this;
}

FrameWriter& FrameWriter::add(const Failure& failure) {
  add(static_cast<int64_t>(failure.at_fault.size()));
  for (int rank : failure.at_fault) add(int64_t{rank});
  return add(failure.reason);
}

FrameWriter& FrameWriter::add(const std::optional<Progress>& progress) {
  static_assert(std::is_trivially_copyable_v<Progress>);
  if (!progress) return add(std::string_view());
  return add(std::string_view(reinterpret_cast<const char*>(&*progress), sizeof *progress));
}

std::string FrameWriter::finish() {
  const auto length = static_cast<uint32_t>(bytes_.size() - 4);
  std::memcpy(bytes_.data(), &length, sizeof length);
  return std::move(bytes_);
}

std::string_view FrameReader::take(size_t num_bytes) {
  if (num_bytes > rest_.size()) throw CommError("a message of the job's store is cut off");
  const std::string_view taken = rest_.substr(0, num_bytes);
  rest_.remove_prefix(num_bytes);
  return taken;
}

int64_t FrameReader::integer() {
  int64_t value;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

std::string_view FrameReader::text() {
  return take(static_cast<size_t>(integer()));
}

Failure FrameReader::failure() {
  Failure failure;
  for (int64_t left = integer(); left > 0; --left) {
    failure.at_fault.push_back(static_cast<int>(integer()));
  }
  failure.reason = text();
  return failure;
}

std::optional<Progress> FrameReader::progress() {
  const std::string_view bytes = text();
  if (bytes.size() != sizeof(Progress)) return std::nullopt;
  Progress progress;
  std::memcpy(static_cast<void*>(&progress), bytes.data(), sizeof progress);
  return progress;
}

std::optional<std::string> take_frame(std::string* received, size_t limit) {
  uint32_t length = 0;
  if (received->size() < sizeof length) return std::nullopt;
  std::memcpy(&length, received->data(), sizeof length);
  if (length > limit) throw CommError(fmt::format("a message of {} bytes is too long", length));
  if (received->size() < sizeof length + length) return std::nullopt;
  std::string body = received->substr(sizeof length, length);
  received->erase(0, sizeof length + length);
  return body;
}

void send_frame(const Socket& socket, std::string_view frame, Clock::time_point deadline) {
  while (!frame.empty()) {
    const ssize_t sent = send(socket.fd(), frame.data(), frame.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      frame.remove_prefix(static_cast<size_t>(sent));
    } else if (would_block(errno)) {
      wait_for(socket, POLLOUT, deadline);
    } else {
      throw CommError(fmt::format("the job's store is gone: {}", strerror(errno)));
    }
  }
}

std::string receive_frame(const Socket& socket, std::string* received, Clock::time_point deadline) {
  for (;;) {
    if (auto body = take_frame(received, kMaxFrameBytes)) return std::move(*body);
    char buffer[16384];
    const ssize_t count = recv(socket.fd(), buffer, sizeof buffer, 0);
    if (count > 0) {
      received->append(buffer, static_cast<size_t>(count));
    } else if (count < 0 && would_block(errno)) {
      wait_for(socket, POLLIN, deadline);
    } else {
      throw CommError("the job's store is gone: it closed the connection");
    }
  }
}

}  // namespace monograph::comm
