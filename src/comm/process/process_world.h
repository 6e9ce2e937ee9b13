#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/store/tcp_store.h"
#include "comm/world.h"

namespace monograph::comm {

// How collectives move data. kAuto: what was faster when the group was made.
enum class Transport : uint8_t { kAuto, kSharedMemory, kGloo };

struct ProcessWorldOptions {
  StoreAddress store;
  int local_rank = 0;
  int local_size = 1;
  Milliseconds timeout{300'000};       // of one collective
  Milliseconds join_timeout{300'000};  // for all ranks to come
  Transport transport = Transport::kAuto;
  std::string log_directory;  // where flight records go on failure; empty: nowhere
  std::function<void(const std::string&)>
      log;  // a line about each choice, in the group's first rank
};

// From the environment: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT as
// launchers set them; MONOGRAPH_STORE (host:port of a store that a launcher serves; without it rank
// 0 serves one at MASTER_ADDR:MASTER_PORT), MONOGRAPH_JOB_TOKEN, MONOGRAPH_TIMEOUT (seconds),
// MONOGRAPH_COMM (auto, shared_memory, gloo), MONOGRAPH_LOG_DIR. Without RANK and WORLD_SIZE: a
// world of one. UserError names what is missing or wrong.
ProcessWorldOptions world_from_environment();

class ProcessWorld : public World {
 public:
  // As split(), by this transport.
  virtual std::unique_ptr<Communicator> split_over(Transport transport, std::span<const int> ranks,
                                                   std::string_view name) = 0;
};

// Joins a job of two ranks or more. CommError names the ranks that did not come.
std::unique_ptr<ProcessWorld> join_processes(const ProcessWorldOptions& options);
// The same for a job of any size. SIGPIPE is ignored from then on, unless the program handles it.
std::unique_ptr<World> join_world(const ProcessWorldOptions& options);

}  // namespace monograph::comm
