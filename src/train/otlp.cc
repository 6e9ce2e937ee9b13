#include "train/otlp.h"

#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "base/error.h"

namespace monograph::train {
namespace {

constexpr int kTimeoutS = 2;
constexpr std::chrono::minutes kPause{1};  // after a failure

// A connection that ends with it. Unlike comm::connect_to it does not wait for the other side to
// come: UserError with the system's words.
class Connection {
 public:
  Connection(const std::string& host, const std::string& port) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
    if (error != 0) throw_user_error("{}", gai_strerror(error));
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
    for (const addrinfo* at = found; at != nullptr && socket_ < 0; at = at->ai_next) connect(*at);
    if (socket_ < 0) throw_user_error("{}", std::strerror(errno));
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;

  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw_user_error("{}", std::strerror(errno));
      bytes.remove_prefix(static_cast<size_t>(count));
    }
  }
  std::string receive_line() const {
    std::string line;
    for (char byte = 0; recv(socket_, &byte, 1, 0) == 1 && byte != '\r';) line += byte;
    return line;
  }

 private:
  void connect(const addrinfo& address) {
    socket_ = socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol);
    const timeval limit = {kTimeoutS, 0};  // of connecting, too
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (::connect(socket_, address.ai_addr, address.ai_addrlen) == 0) return;
    const int error = errno;
    close(socket_);
    socket_ = -1;
    errno = error;
  }

  int socket_ = -1;
};

}  // namespace

OtlpTarget::OtlpTarget(std::string target) : target_(std::move(target)) {
  const size_t scheme = target_.find("://");
  if (scheme == target_.npos) {
    if (!std::ofstream(target_, std::ios::app)) {
      throw_user_error(
          "cannot write --otlp {}: give a file in a folder that is there, or a "
          "collector as http://HOST:4318",
          target_);
    }
    return;
  }
  const size_t begin = scheme + 3, slash = std::min(target_.find('/', begin), target_.size());
  const std::string place = target_.substr(begin, slash - begin);
  const size_t colon = place.rfind(':');
  path_ = slash < target_.size() ? target_.substr(slash) : "/v1/metrics";
  if (colon != place.npos) port_ = place.substr(colon + 1);
  host_ = place.substr(0, colon);
  const bool is_number = !port_.empty() && port_.find_first_not_of("0123456789") == port_.npos;
  if (!target_.starts_with("http://") || host_.empty() || !is_number) {
    throw_user_error("--otlp {}: use http://HOST:PORT (a collector's is 4318), or a file", target_);
  }
}

void OtlpTarget::send(const std::string& request) {
  if (host_.empty()) {
    std::ofstream(target_, std::ios::app) << request << '\n';
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now < next_try_) return;
  try {
    post(request);
  } catch (const UserError& error) {
    if (!has_warned_) {
      fmt::print(stderr, "warning: metrics do not reach {}: {}\n", target_, error.what());
    }
    has_warned_ = true;
    next_try_ = now + kPause;
  }
}

void OtlpTarget::post(const std::string& request) {
  const Connection connection(host_, port_);
  connection.send(
      fmt::format("POST {} HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: "
                  "application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                  path_, host_, port_, request.size()));
  connection.send(request);
  const std::string answer = connection.receive_line();  // "HTTP/1.1 200 OK"
  const size_t space = answer.find(' ');
  if (space == answer.npos || answer[space + 1] != '2') {
    throw_user_error("it answers '{}'", answer);
  }
}

}  // namespace monograph::train
