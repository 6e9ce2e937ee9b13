#pragma once

#include <memory>
#include <optional>
#include <string>

#include "comm/job_watch.h"
#include "comm/store.h"
#include "comm/store/socket.h"

namespace monograph::comm {

// The store of a job over TCP, and the watch over its ranks: one thread, which runs until the
// server is destroyed. It listens on the address given alone; a client must know the job's token.
class StoreServer {
 public:
  // Port 0 takes a free one. UserError when it cannot listen there, or the token is empty.
  StoreServer(const Endpoint& endpoint, int world_size, const std::string& token);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const;
  // Why the job stops, once it does.
  std::optional<Failure> first_failure() const;
  void settle(const Failure& failure);
  // Waits until every rank that joined has ended; false when the timeout passed.
  bool wait_until_deserted(Milliseconds timeout) const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

// 128 random bits as text.
std::string make_token();

}  // namespace monograph::comm
