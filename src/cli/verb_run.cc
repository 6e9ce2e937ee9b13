#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/verbs.h"
#include "launch/launcher.h"
#include "launch/plan.h"

namespace monograph::cli {
namespace {

// A verb stands for this program with that verb.
std::vector<std::string> resolve(std::vector<std::string> command) {
  const bool is_verb =
      !command.empty() && std::any_of(verbs().begin(), verbs().end(),
                                      [&](const Verb& verb) { return verb.name == command[0]; });
  if (is_verb) {
    command.insert(command.begin(), std::filesystem::read_symlink("/proc/self/exe").string());
  }
  return command;
}

}  // namespace

int run_run(std::span<const std::string> args) {
  const auto separator = std::find(args.begin(), args.end(), "--");
  const std::vector<std::string> own(args.begin(), separator);
  launch::LaunchOptions options;
  if (separator != args.end()) {
    options.command = resolve(std::vector<std::string>(separator + 1, args.end()));
  }
  std::int64_t num_hosts = 1;
  std::int64_t host_index = 0;
  Arguments arguments("monograph run",
                      "starts the ranks of a job on this host: monograph run [options] -- VERB or "
                      "PROGRAM and its arguments");
  arguments.option("nproc-per-node", &options.num_local, "ranks on each host");
  arguments.option("nnodes", &num_hosts, "hosts of the job; SLURM_NNODES where not given");
  arguments.option("node-rank", &host_index, "which of them this is; SLURM_NODEID where not given");
  arguments.option("master-addr", &options.master_address, "address of the first host");
  arguments.option("master-port", &options.master_port,
                   "a port of it, free together with the next one; 0: any, on one host");
  arguments.option("log-dir", &options.log_directory,
                   "where each rank's output and flight record go; by default runs/DATE_TIME");
  options.timeout_seconds = 300;
  arguments.option("timeout", &options.timeout_seconds,
                   "seconds after which a collective that does not end fails");
  if (!arguments.parse(own)) return 0;
  const auto is_given = [&](const std::string& flag) {
    return std::any_of(own.begin(), own.end(), [&](const std::string& word) {
      return word == flag || word.starts_with(flag + "=");
    });
  };
  if (is_given("--nnodes")) options.num_hosts = num_hosts;
  if (is_given("--node-rank")) options.host_index = host_index;
  const auto num_cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return launch::launch(launch::make_plan(options, launch::environment_variable, num_cores));
}

}  // namespace monograph::cli
