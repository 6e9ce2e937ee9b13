#include "frontend/session/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace monograph::session {
namespace {

const std::vector<std::string_view> kNames = {"backend",
                                              "cache_dir",
                                              "comm_optimization_level",
                                              "compile_timeout",
                                              "compiler",
                                              "deterministic",
                                              "disable_pass",
                                              "dump_dir",
                                              "dynamic",
                                              "fullgraph",
                                              "link",
                                              "loss_chunk_bytes",
                                              "memory_budget",
                                              "mode",
                                              "precision",
                                              "recompute",
                                              "recompile_limit",
                                              "residual",
                                              "stop_after",
                                              "suppress_errors",
                                              "target",
                                              "verify"};

void check_value(std::string_view name, std::string_view value,
                 const std::vector<std::string_view>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  throw_user_error("option {}='{}': use one of {}", name, value, fmt::join(allowed, ", "));
}

bool parse_bool(std::string_view name, std::string_view value) {
  check_value(name, value, {"true", "false"});
  return value == "true";
}

int64_t parse_count(std::string_view name, std::string_view value, int64_t least,
                    std::string_view allowed) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error != std::errc() || end != value.data() + value.size() || count < least) {
    throw_user_error("option {}='{}': use {}", name, value, allowed);
  }
  return count;
}

// "30us:4GB/s": what any exchange takes, and the bytes that pass in a second.
ir::LinkModel parse_link(std::string_view text) {
  double microseconds = 0, gigabytes = 0;
  const char* const end = text.data() + text.size();
  const auto latency = std::from_chars(text.data(), end, microseconds);
  const size_t colon = text.find(':');
  const auto bandwidth =
      std::from_chars(text.data() + std::min(colon, text.size() - 1) + 1, end, gigabytes);
  const bool is_link =
      colon != text.npos && latency.ec == std::errc() && bandwidth.ec == std::errc() &&
      std::string_view(latency.ptr, end).starts_with("us:") &&
      std::string_view(bandwidth.ptr, end) == "GB/s" && microseconds >= 0 && gigabytes > 0;
  if (!is_link) {
    throw_user_error("option link='{}': use latency and bandwidth of an exchange, as 30us:4GB/s",
                     text);
  }
  return {.latency_s = microseconds * 1e-6, .bytes_per_s = gigabytes * 1e9};
}

// Each option alone; any two may be set one after the other.
void check_values(const CompileOptions& options) {
  check_value("backend", options.backend, {"cpu", "cuda", "interpret", "null"});
  check_value("target", options.target, {"cpu", "h200"});
  check_value("mode", options.mode, {"default", "reduce-overhead", "max-autotune"});
  check_value("precision", options.precision, {"f32", "bf16"});
  check_value("residual", options.residual, {"f32", "bf16"});
  compile_timeout_seconds(options);
  check_value("recompute", options.recompute, {"cheap", "products"});
  memory_budget(options);
  check_value("verify", options.verify, {"off", "warn", "fatal"});
  if (options.recompile_limit < 1) {
    throw_user_error("option recompile_limit={}: use a number of compilations, 1 or more",
                     options.recompile_limit);
  }
  if (options.comm_optimization_level < 0 || options.comm_optimization_level > 2) {
    throw_user_error("option comm_optimization_level={}: use 0, 1 or 2",
                     options.comm_optimization_level);
  }
  if (const ir::LinkModel link = link_of(options); !(link.latency_s >= 0 && link.bytes_per_s > 0)) {
    throw_user_error("option link: latency {} s, {} bytes/s: use 0 or more, and above 0",
                     link.latency_s, link.bytes_per_s);
  }
  if (options.stop_after < -1) {
    throw_user_error("option stop_after={}: use a number of passes, or -1 for all",
                     options.stop_after);
  }
}

}  // namespace

double compile_timeout_seconds(const CompileOptions& options) {
  const std::string& text = options.compile_timeout;
  if (text == "auto") return kAutomaticTimeout;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds >= 0)) {
    throw_user_error("option compile_timeout='{}': use seconds, 0 to wait, or auto", text);
  }
  return seconds;
}

ir::LinkModel link_of(const CompileOptions& options) {
  const bool is_gpu = options.backend == "cuda" || options.target == "h200";
  return options.link.value_or(is_gpu ? ir::LinkModel::nvlink() : ir::LinkModel());
}

void set_option(CompileOptions& options, std::string_view name, std::string_view value) {
  if (name == "backend") {
    options.backend = value;
  } else if (name == "target") {
    options.target = value;
  } else if (name == "mode") {
    options.mode = value;
  } else if (name == "precision") {
    options.precision = value;
  } else if (name == "residual") {
    options.residual = value;
  } else if (name == "deterministic") {
    options.deterministic = parse_bool(name, value);
  } else if (name == "memory_budget") {
    options.memory_budget = value;
  } else if (name == "recompute") {
    options.recompute = value;
  } else if (name == "fullgraph") {
    options.fullgraph = parse_bool(name, value);
  } else if (name == "dynamic") {
    options.dynamic = parse_bool(name, value);
  } else if (name == "verify") {
    options.verify = value;
  } else if (name == "comm_optimization_level") {
    check_value(name, value, {"0", "1", "2"});
    options.comm_optimization_level = value[0] - '0';
  } else if (name == "link") {
    options.link = parse_link(value);
  } else if (name == "disable_pass") {
    options.disabled_passes.emplace_back(value);
  } else if (name == "stop_after") {
    options.stop_after = parse_count(name, value, -1, "a number of passes, or -1 for all");
  } else if (name == "recompile_limit") {
    options.recompile_limit = parse_count(name, value, 1, "a number of compilations, 1 or more");
  } else if (name == "loss_chunk_bytes") {
    options.loss_chunk_bytes =
        parse_count(name, value, 0, "a number of bytes, or 0 for the device's own");
  } else if (name == "compile_timeout") {
    options.compile_timeout = value;
  } else if (name == "suppress_errors") {
    options.suppress_errors = parse_bool(name, value);
  } else if (name == "compiler") {
    options.compiler = value;
  } else if (name == "cache_dir") {
    options.cache_dir = value;
  } else if (name == "dump_dir") {
    options.dump_dir = value;
  } else {
    throw_user_error("unknown option '{}': use one of {}", name, fmt::join(kNames, ", "));
  }
  check_values(options);
}

void set_options(CompileOptions& options, std::string_view list) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    const size_t equals = item.find('=');
    if (equals == item.npos) {
      throw_user_error("option '{}': use NAME=VALUE, with NAME one of {}", item,
                       fmt::join(kNames, ", "));
    }
    set_option(options, item.substr(0, equals), item.substr(equals + 1));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
  }
}

compiler::MemoryBudget memory_budget(const CompileOptions& options) {
  compiler::MemoryBudget budget{.recompute_products = options.recompute == "products"};
  const std::string& text = options.memory_budget;
  if (text.empty()) return budget;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, text.data() + text.size() - end);
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}};
  const bool is_number = error == std::errc() && number > 0;
  if (is_number && unit.empty() && number <= 1) {
    budget.fraction = number;
    return budget;
  }
  for (const auto& [name, bytes] : kUnits) {
    if (is_number && unit == name) budget.bytes = static_cast<int64_t>(number * bytes);
  }
  if (budget.bytes > 0) return budget;
  throw_user_error(
      "option memory_budget='{}': use bytes with a unit (60MB, 1.5GB), or a fraction up to 1 of "
      "what the step takes (0.7)",
      text);
}

void check_options(const CompileOptions& options) {
  check_values(options);
  if (options.target != "cpu" && options.backend != "null") {
    throw_user_error(
        "option target='{}' with backend {}, which compiles for what it runs on: use backend null",
        options.target, options.backend);
  }
  if (options.residual == "bf16" && options.precision != "bf16") {
    throw_user_error("option residual='bf16' with precision {}: use precision bf16 with it",
                     options.precision);
  }
  if (options.mode != "default" && options.backend != "cuda") {
    throw_user_error("option mode='{}' is of backend cuda: use mode default with backend {}",
                     options.mode, options.backend);
  }
  const bool is_dynamic = options.dynamic || !options.dynamic_shapes.empty();
  if (is_dynamic && options.backend != "cpu" && options.backend != "interpret") {
    throw_user_error(
        "options dynamic and dynamic_shapes with backend {}: use backend cpu or interpret, or one "
        "size of inputs",
        options.backend);
  }
  if (is_dynamic && !options.pipeline.empty()) {
    throw_user_error(
        "a pipeline of passes for a step with dynamic sizes: they are compiled by the compiler's "
        "own; use one size of inputs");
  }
  if (is_dynamic && !options.memory_budget.empty()) {
    throw_user_error(
        "option memory_budget='{}' of a step with dynamic sizes: its memory is planned for the "
        "largest; use no budget, or one size of inputs",
        options.memory_budget);
  }
  if (options.loss_chunk_bytes < 0) {
    throw_user_error("option loss_chunk_bytes={}: use a number of bytes, or 0 for the device's own",
                     options.loss_chunk_bytes);
  }
}

}  // namespace monograph::session
