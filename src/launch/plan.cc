#include "launch/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>

#include "base/error.h"
#include "comm/store/store_server.h"

namespace monograph::launch {
namespace {

int64_t number(const char* name, const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) {
    throw_user_error("the environment's {}='{}' is not a whole number", name, text);
  }
  return value;
}

// The flag, or the variable where the flag was not given; both: they must agree.
int64_t agree(const char* flag, int64_t given, int64_t absent, const char* name,
              const Environment& environment, int64_t otherwise) {
  const auto text = environment(name);
  if (!text) return given == absent ? otherwise : given;
  const int64_t value = number(name, *text);
  if (given != absent && given != value) {
    throw_user_error("[run] {} {} contradicts the environment's {}={}: leave one of them out", flag,
                     given, name, value);
  }
  return value;
}

void check_range(const char* flag, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  throw_user_error("[run] {} {} is out of range: give {} to {}", flag, value, least, most);
}

std::string default_log_directory() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  char text[64];
  std::strftime(text, sizeof text, "runs/%Y-%m-%d_%H-%M-%S", &local);
  return text;
}

void set_address(const LaunchOptions& options, const Environment& environment, LaunchPlan* plan) {
  plan->master_address = options.master_address;
  if (plan->master_address.empty()) {
    plan->master_address = environment("MASTER_ADDR").value_or("");
  }
  const int64_t port = options.master_port != 0
                           ? options.master_port
                           : number("MASTER_PORT", environment("MASTER_PORT").value_or("0"));
  if (port != 0) check_range("--master-port", port, 1, 65534);
  plan->master_port = static_cast<int>(port);
  if (plan->num_hosts == 1) {
    if (plan->master_address.empty()) plan->master_address = "127.0.0.1";
    return;
  }
  if (plan->master_address.empty() || port == 0) {
    throw_user_error(
        "[run] --nnodes {} needs --master-addr and --master-port: an address of the first host "
        "that all hosts reach, and a port such that it and the next one are free there",
        plan->num_hosts);
  }
  plan->store_port = plan->master_port + 1;
}

}  // namespace

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

LaunchPlan make_plan(const LaunchOptions& options, const Environment& environment, int num_cores) {
  if (options.command.empty()) {
    throw_user_error(
        "[run] nothing to run: give the command after --, as in: monograph run "
        "--nproc-per-node 2 -- train gpt-nano --data text.txt");
  }
  if (environment("RANK") || environment("LOCAL_RANK")) {
    throw_user_error(
        "[run] RANK or LOCAL_RANK is set: this process is itself a rank of a "
        "launcher: start one 'monograph run' a host, or the program without it");
  }
  LaunchPlan plan;
  check_range("--nproc-per-node", options.num_local, 1, 4096);
  plan.num_local = static_cast<int>(options.num_local);
  const int64_t num_hosts = agree("--nnodes", options.num_hosts, 0, "SLURM_NNODES", environment, 1);
  check_range("--nnodes", num_hosts, 1, 65536);
  plan.num_hosts = static_cast<int>(num_hosts);
  const int64_t index =
      num_hosts == 1 && options.host_index == -1
          ? 0
          : agree("--node-rank", options.host_index, -1, "SLURM_NODEID", environment, -1);
  if (index == -1) {
    throw_user_error("[run] --nnodes {} needs --node-rank: 0 on the first host, up to {}",
                     num_hosts, num_hosts - 1);
  }
  check_range("--node-rank", index, 0, num_hosts - 1);
  plan.host_index = static_cast<int>(index);
  set_address(options, environment, &plan);
  plan.token = environment("MONOGRAPH_JOB_TOKEN").value_or("");
  if (plan.token.empty() && num_hosts > 1) {
    throw_user_error(
        "[run] a job of {} hosts needs a secret: set MONOGRAPH_JOB_TOKEN to the same "
        "random text on all hosts, as from: openssl rand -hex 16",
        num_hosts);
  }
  if (plan.token.empty()) plan.token = comm::make_token();
  if (options.timeout_seconds != 0) {
    check_range("--timeout", options.timeout_seconds, 1, 1'000'000);
    plan.timeout_seconds = options.timeout_seconds;
  }
  plan.log_directory =
      options.log_directory.empty() ? default_log_directory() : options.log_directory;
  if (!environment("OMP_NUM_THREADS")) plan.num_threads = std::max(1, num_cores / plan.num_local);
  plan.command = options.command;
  return plan;
}

std::vector<std::pair<std::string, std::string>> rank_environment(const LaunchPlan& plan,
                                                                  int local_rank) {
  std::vector<std::pair<std::string, std::string>> variables = {
      {"RANK", std::to_string(plan.first_rank() + local_rank)},
      {"WORLD_SIZE", std::to_string(plan.world_size())},
      {"LOCAL_RANK", std::to_string(local_rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(plan.num_local)},
      {"GROUP_RANK", std::to_string(plan.host_index)},
      {"MASTER_ADDR", plan.master_address},
      {"MASTER_PORT", std::to_string(plan.master_port)},
      {"MONOGRAPH_STORE", fmt::format("{}:{}", plan.master_address, plan.store_port)},
      {"MONOGRAPH_JOB_TOKEN", plan.token},
      {"MONOGRAPH_LOG_DIR", plan.log_directory},
      {"MONOGRAPH_TIMEOUT", std::to_string(plan.timeout_seconds)},
  };
  if (plan.num_threads > 0) {
    variables.emplace_back("OMP_NUM_THREADS", std::to_string(plan.num_threads));
  }
  return variables;
}

}  // namespace monograph::launch
