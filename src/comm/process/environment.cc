#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "comm/process/process_world.h"

namespace monograph::comm {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

int64_t number(const char* name, const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < least || value > most) {
    throw_user_error("the environment's {}='{}' is not valid: give a whole number from {} to {}",
                     name, text, least, most);
  }
  return value;
}

int required(const char* name, int64_t least, int64_t most) {
  const auto text = variable(name);
  if (!text) {
    throw_user_error(
        "the environment has RANK or WORLD_SIZE but no {}: start the ranks by "
        "'monograph run', or set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, "
        "MASTER_ADDR and MASTER_PORT",
        name);
  }
  return static_cast<int>(number(name, *text, least, most));
}

Transport transport_of(const std::string& text) {
  if (text == "auto") return Transport::kAuto;
  if (text == "shared_memory") return Transport::kSharedMemory;
  if (text == "gloo") return Transport::kGloo;
  throw_user_error("MONOGRAPH_COMM='{}' is unknown: use auto, shared_memory or gloo", text);
}

}  // namespace

ProcessWorldOptions world_from_environment() {
  ProcessWorldOptions options;
  options.log_directory = variable("MONOGRAPH_LOG_DIR").value_or("");
  if (const auto text = variable("MONOGRAPH_TIMEOUT")) {
    options.timeout = options.join_timeout =
        Milliseconds(1000 * number("MONOGRAPH_TIMEOUT", *text, 1, 1'000'000));
  }
  options.transport = transport_of(variable("MONOGRAPH_COMM").value_or("auto"));
  if (!variable("RANK") && !variable("WORLD_SIZE")) return options;
  constexpr int64_t kMost = 1 << 20;
  options.store.world_size = required("WORLD_SIZE", 1, kMost);
  options.store.rank = required("RANK", 0, options.store.world_size - 1);
  options.local_size = required("LOCAL_WORLD_SIZE", 1, options.store.world_size);
  options.local_rank = required("LOCAL_RANK", 0, options.local_size - 1);
  if (options.store.world_size == 1) return options;
  options.store.token = variable("MONOGRAPH_JOB_TOKEN").value_or("");
  if (options.store.token.empty()) {
    throw_user_error(
        "the job has no secret: set MONOGRAPH_JOB_TOKEN to the same random text in "
        "all ranks, as from: openssl rand -hex 16");
  }
  if (const auto store = variable("MONOGRAPH_STORE")) {
    options.store.endpoint = parse_endpoint(*store);
  } else {
    const auto host = variable("MASTER_ADDR");
    if (!host) throw_user_error("the environment has no MASTER_ADDR: set it to rank 0's address");
    options.store.endpoint = {*host, required("MASTER_PORT", 1, 65535)};
    options.store.serving_rank = 0;
  }
  return options;
}

}  // namespace monograph::comm
