#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace monograph::launch {

// What the user asked for; 0, -1 and "" mean: not given.
struct LaunchOptions {
  int64_t num_local = 1;  // ranks on this host
  int64_t num_hosts = 0;
  int64_t host_index = -1;
  std::string master_address;
  int64_t master_port = 0;
  std::string log_directory;
  int64_t timeout_seconds = 0;
  std::vector<std::string> command;  // the program, found in PATH, and its arguments
};

using Environment = std::function<std::optional<std::string>(const char* name)>;
// The process's own; an empty variable counts as not set.
std::optional<std::string> environment_variable(const char* name);

// What this host's launcher does.
struct LaunchPlan {
  int num_local = 1;
  int num_hosts = 1;
  int host_index = 0;
  std::string master_address;
  int master_port = 0;  // left to the ranks; 0: any free one
  int store_port = 0;   // of the job's store, which host 0's launcher serves; 0: any free one
  std::string token;
  std::string log_directory;
  int64_t timeout_seconds = 300;
  int num_threads = 0;  // OMP_NUM_THREADS of each rank; 0: left as the user set it
  std::vector<std::string> command;

  int world_size() const { return num_local * num_hosts; }
  int first_rank() const { return num_local * host_index; }
  bool serves_store() const { return host_index == 0; }
};

// Fills in what was not given, from SLURM_NNODES, SLURM_NODEID, MASTER_ADDR, MASTER_PORT and
// MONOGRAPH_JOB_TOKEN. UserError for settings that are missing, out of range or that contradict the
// environment. The token of a job of one host is made here where there is none.
LaunchPlan make_plan(const LaunchOptions& options, const Environment& environment, int num_cores);

// What rank `local_rank` of this host finds in its environment beside what the launcher has.
std::vector<std::pair<std::string, std::string>> rank_environment(const LaunchPlan& plan,
                                                                  int local_rank);

}  // namespace monograph::launch
