#include "comm/store/store_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/store/frame.h"
#include "comm/store/job_state.h"

namespace monograph::comm {
namespace {

constexpr Milliseconds kGreetingTimeout{10'000};
constexpr size_t kMaxGreetingBytes = 4096;

struct Connection {
  Socket socket;
  std::string received;
  std::string unsent;
  Clock::time_point since;
  bool is_greeted = false;
  bool is_broken = false;  // closed once its last words are out
};

}  // namespace

class StoreServer::Loop {
 public:
  Loop(const Endpoint& endpoint, int world_size, const std::string& token)
      : listener_(listen_on(endpoint)),
        state_(world_size, token, [this](int to, std::string frame) { send(to, frame); }) {
    int ends[2];
    check(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "pipe2: errno {}", errno);
    wake_read_ = Socket(ends[0]);
    wake_write_ = Socket(ends[1]);
    thread_ = std::thread([this] { run(); });
  }

  ~Loop() {
    {
      const std::scoped_lock lock(mutex_);
      is_stopping_ = true;
    }
    wake();
    thread_.join();
  }

  int port() const { return port_of(listener_); }

  std::optional<Failure> first_failure() const {
    const std::scoped_lock lock(mutex_);
    return state_.first_failure();
  }

  void settle(const Failure& failure) {
    {
      const std::scoped_lock lock(mutex_);
      state_.settle(failure);
    }
    wake();
  }

  bool wait_until_deserted(Milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return state_.is_deserted(); });
  }

 private:
  void wake() { (void)!write(wake_write_.fd(), "", 1); }

  void run() {
    std::unique_lock lock(mutex_);
    while (!is_stopping_) {
      const Clock::time_point next = std::min(state_.expire(Clock::now()), drop_strangers());
      std::vector<pollfd> waiting = {{wake_read_.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
      std::vector<int> ids;
      for (const auto& [id, connection] : connections_) {
        const bool is_writing = !connection.unsent.empty();
        waiting.push_back({connection.socket.fd(),
                           static_cast<short>(is_writing ? POLLIN | POLLOUT : POLLIN), 0});
        ids.push_back(id);
      }
      const auto left = std::chrono::ceil<Milliseconds>(next - Clock::now()).count();
      lock.unlock();
      poll(waiting.data(), waiting.size(), static_cast<int>(std::max<int64_t>(left, 0)));
      lock.lock();
      char drained[64];
      while (read(wake_read_.fd(), drained, sizeof drained) > 0) {
      }
      for (size_t i = 0; i < ids.size(); ++i) {
        if (waiting[i + 2].revents != 0) serve(ids[i], waiting[i + 2].revents);
      }
      if (waiting[1].revents != 0) accept_all();
      close_broken();
      changed_.notify_all();
    }
  }

  void accept_all() {
    for (;;) {
      Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.is_open()) return;
      set_no_delay(socket);
      connections_[num_accepted_++] = {std::move(socket), {}, {}, Clock::now()};
    }
  }

  void serve(int id, short events) {
    Connection& connection = connections_.at(id);
    flush(connection);
    if ((events & (POLLIN | POLLHUP | POLLERR)) == 0) return;
    char buffer[16384];
    for (;;) {
      const ssize_t count = recv(connection.socket.fd(), buffer, sizeof buffer, 0);
      if (count > 0) {
        connection.received.append(buffer, static_cast<size_t>(count));
        continue;
      }
      if (count == 0 || (errno != EAGAIN && errno != EINTR)) connection.is_broken = true;
      break;
    }
    try {
      while (auto body = take_frame(&connection.received,
                                    connection.is_greeted ? kMaxFrameBytes : kMaxGreetingBytes)) {
        if (connection.is_greeted) {
          state_.handle(id, *body, Clock::now());
        } else {
          connection.is_greeted = state_.greet(id, *body);
          connection.is_broken |= !connection.is_greeted;
        }
      }
    } catch (const CommError&) {
      connection.is_broken = true;  // it does not speak as our clients do
    }
  }

  void send(int id, const std::string& frame) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    found->second.unsent += frame;
    flush(found->second);
  }

  void flush(Connection& connection) {
    while (!connection.unsent.empty()) {
      const ssize_t sent = ::send(connection.socket.fd(), connection.unsent.data(),
                                  connection.unsent.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // full; or broken, which the next recv finds
      connection.unsent.erase(0, static_cast<size_t>(sent));
    }
  }

  Clock::time_point drop_strangers() {
    Clock::time_point next = Clock::time_point::max();
    for (auto& [id, connection] : connections_) {
      if (connection.is_greeted) continue;
      if (connection.since + kGreetingTimeout <= Clock::now()) connection.is_broken = true;
      next = std::min(next, connection.since + kGreetingTimeout);
    }
    close_broken();
    return next;
  }

  void close_broken() {
    std::vector<int> broken;
    for (const auto& [id, connection] : connections_) {
      if (connection.is_broken) broken.push_back(id);
    }
    for (int id : broken) {
      connections_.erase(id);
      state_.close(id);
    }
  }

  const Socket listener_;
  Socket wake_read_;
  Socket wake_write_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  JobState state_;
  std::map<int, Connection> connections_;
  int num_accepted_ = 0;
  std::thread thread_;
};

StoreServer::StoreServer(const Endpoint& endpoint, int world_size, const std::string& token) {
  if (token.empty()) {
    throw_user_error(
        "the job has no secret: set MONOGRAPH_JOB_TOKEN to the same random text on "
        "all hosts, as from: openssl rand -hex 16");
  }
  loop_ = std::make_unique<Loop>(endpoint, world_size, token);
}

StoreServer::~StoreServer() = default;

int StoreServer::port() const {
  return loop_->port();
}
std::optional<Failure> StoreServer::first_failure() const {
  return loop_->first_failure();
}
void StoreServer::settle(const Failure& failure) {
  loop_->settle(failure);
}
bool StoreServer::wait_until_deserted(Milliseconds timeout) const {
  return loop_->wait_until_deserted(timeout);
}

std::string make_token() {
  std::array<uint64_t, 2> bits = {};
  check(getrandom(bits.data(), sizeof bits, 0) == sizeof bits, "getrandom: errno {}", errno);
  return fmt::format("{:016x}{:016x}", bits[0], bits[1]);
}

}  // namespace monograph::comm
