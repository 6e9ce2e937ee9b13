#pragma once

#include <string>
#include <utility>

#include "comm/store.h"

namespace monograph::comm {

// An open file descriptor, closed at the end.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close() { *this = Socket(); }

 private:
  int fd_ = -1;
};

struct Endpoint {
  std::string host;
  int port = 0;

  std::string str() const { return host + ":" + std::to_string(port); }
};
// "host:port". UserError for anything else.
Endpoint parse_endpoint(const std::string& text);

// A TCP socket that listens on this address alone; port 0 takes a free one. UserError when the
// address is not of this machine or the port is taken.
Socket listen_on(const Endpoint& endpoint);
int port_of(const Socket& socket);

// Tries again until the deadline, because the other side may come later. CommError then.
Socket connect_to(const Endpoint& endpoint, Clock::time_point deadline);

// The address of this machine's side of the connection, without the port.
std::string local_address(const Socket& socket);

// Small messages must not wait for each other (40 ms each otherwise).
void set_no_delay(const Socket& socket);

}  // namespace monograph::comm
