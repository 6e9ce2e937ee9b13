#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "comm/store/frame.h"
#include "comm/store/socket.h"

namespace monograph::comm {

// How a rank reaches its job's store.
struct StoreAddress {
  Endpoint endpoint;
  std::string token;
  int rank = 0;
  int world_size = 1;
  int serving_rank = -1;  // the rank that runs the server; -1: a launcher does
};

// Connects and says hello. UserError when the store refuses this rank, CommError when it cannot be
// reached by the deadline.
Socket join_store(const StoreAddress& address, ClientKind kind, Clock::time_point deadline,
                  std::string* received);

// A rank's side of a StoreServer. One request at a time: a thread that waits keeps others waiting.
class TcpStore : public Store {
 public:
  // timeout: for connecting, and for the server to answer what needs no waiting.
  TcpStore(const StoreAddress& address, Milliseconds timeout);

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, Milliseconds timeout) override;
  int64_t add(std::string_view key, int64_t delta) override;
  void wait(std::span<const std::string> keys, Milliseconds timeout) override;
  bool erase(std::string_view key) override;

  // The address by which this host reached the store's: others of the job can reach it there.
  std::string local_address() const;

 private:
  std::string request(FrameWriter& message, Milliseconds timeout);

  const Endpoint endpoint_;
  const Milliseconds timeout_;
  std::mutex mutex_;
  std::string received_;
  Socket socket_;
};

}  // namespace monograph::comm
