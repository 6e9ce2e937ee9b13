#include "comm/store/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <thread>

#include "base/error.h"

namespace monograph::comm {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const Endpoint& endpoint, std::string* problem) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  const int error = getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) *problem = gai_strerror(error);
  return {found, &freeaddrinfo};
}

Socket try_connect(const addrinfo& address, Milliseconds limit, std::string* problem) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) return socket;
  int error = errno;
  if (error == EINPROGRESS) {
    pollfd waiting = {socket.fd(), POLLOUT, 0};
    error = ETIMEDOUT;
    socklen_t length = sizeof error;
    if (poll(&waiting, 1, static_cast<int>(limit.count())) == 1) {
      getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
  }
  if (error == 0) return socket;
  *problem = strerror(error);
  return {};
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Endpoint parse_endpoint(const std::string& text) {
  const size_t colon = text.rfind(':');
  Endpoint endpoint;
  if (colon != std::string::npos && colon > 0) {
    endpoint.host = text.substr(0, colon);
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, endpoint.port);
    if (error == std::errc() && stop == end && endpoint.port > 0 && endpoint.port < 65536) {
      return endpoint;
    }
  }
  throw_user_error("'{}' is no address: give HOST:PORT, as in 10.0.0.1:29500", text);
}

Socket listen_on(const Endpoint& endpoint) {
  std::string problem;
  const Addresses addresses = resolve(endpoint, &problem);
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    Socket socket(::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(socket.fd(), a->ai_addr, a->ai_addrlen) == 0 && listen(socket.fd(), 1024) == 0) {
      return socket;
    }
    problem = strerror(errno);
  }
  throw_user_error(
      "cannot listen on {}: {}: give an address of this machine and a port that is free",
      endpoint.str(), problem);
}

int port_of(const Socket& socket) {
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

Socket connect_to(const Endpoint& endpoint, Clock::time_point deadline) {
  std::string problem;
  for (Milliseconds pause{5};; pause = std::min(2 * pause, Milliseconds(500))) {
    const Addresses addresses = resolve(endpoint, &problem);
    for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
      const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
      Socket socket = try_connect(*a, std::max(left, Milliseconds(1)), &problem);
      if (!socket.is_open()) continue;
      set_no_delay(socket);
      return socket;
    }
    if (Clock::now() + pause >= deadline) break;
    std::this_thread::sleep_for(pause);
  }
  throw CommError(
      fmt::format("cannot connect to {}: {}: is the job's first host up, and is the "
                  "address right?",
                  endpoint.str(), problem));
}

std::string local_address(const Socket& socket) {
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  char text[NI_MAXHOST] = "";
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length);
  getnameinfo(reinterpret_cast<sockaddr*>(&address), length, text, sizeof text, nullptr, 0,
              NI_NUMERICHOST);
  return text;
}

void set_no_delay(const Socket& socket) {
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace monograph::comm
