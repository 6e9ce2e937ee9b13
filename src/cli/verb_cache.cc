#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/verbs.h"
#include "codegen/cache/directory.h"
#include "codegen/cache/maintenance.h"

namespace monograph::cli {
namespace {

using nlohmann::ordered_json;

constexpr double kDayS = 86400;
constexpr int64_t kMB = 1'000'000;

std::string age_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f} s", seconds);
  if (seconds < 3600) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < kDayS) return fmt::format("{:.0f} h", seconds / 3600);
  return fmt::format("{:.0f} days", seconds / kDayS);
}

std::string bytes_text(int64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  if (bytes < kMB) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

// "g++ (Debian 12.2.0-14) 12.2.0" -> "g++ 12.2.0"
std::string short_compiler(const std::string& version) {
  const size_t open = version.find(" ("), close = version.rfind(") ");
  if (open == std::string::npos || close == std::string::npos) return version;
  return version.substr(0, open) + version.substr(close + 1);
}

void print_items(const codegen::CacheContents& contents) {
  fmt::print("{:<14}{:>9}{:>11}{:>12}  {:<22} {}\n", "kernel", "used", "compiled", "library",
             "compiler", "");
  for (const codegen::CacheItem& item : contents.items) {
    const std::string compiler = short_compiler(codegen::part_of(item.entry.key, "compiler"));
    fmt::print("{:<14}{:>9}{:>11}{:>12}  {:<22} {}\n", item.key.substr(0, 12),
               age_text(item.idle_s),
               fmt::format("{:.0f} ms", static_cast<double>(item.entry.compile_ns) / 1e6),
               bytes_text(item.library_bytes), compiler, item.damage);
  }
}

void print_summary(const codegen::CacheContents& contents) {
  fmt::print("{}: {} kernels, {}", contents.directory.string(), contents.items.size(),
             bytes_text(contents.num_bytes));
  if (!contents.orphans.empty()) fmt::print("; {} libraries of none", contents.orphans.size());
  if (!contents.leftovers.empty()) {
    fmt::print("; {} left behind by killed processes", contents.leftovers.size());
  }
  fmt::print("\n");
}

ordered_json to_json(const codegen::CacheContents& contents) {
  ordered_json json = {
      {"directory", contents.directory.string()}, {"bytes", contents.num_bytes},
      {"damaged", contents.num_damaged()},        {"orphans", contents.orphans.size()},
      {"leftovers", contents.leftovers.size()},   {"kernels", ordered_json::array()}};
  for (const codegen::CacheItem& item : contents.items) {
    ordered_json key = ordered_json::object();
    for (const auto& [name, value] : item.entry.key) key[name] = value;
    json["kernels"].push_back({{"key", item.key},
                               {"parts", key},
                               {"idle_s", item.idle_s},
                               {"compile_ns", item.entry.compile_ns},
                               {"library", item.entry.library},
                               {"library_bytes", item.library_bytes},
                               {"damage", item.damage}});
  }
  return json;
}

int list(const codegen::CacheContents& contents, bool json) {
  if (json) {
    fmt::print("{}\n", to_json(contents).dump(2));
    return 0;
  }
  if (!contents.items.empty()) print_items(contents);
  print_summary(contents);
  return 0;
}

int verify(const codegen::CacheContents& contents, bool json) {
  if (json) {
    fmt::print("{}\n", to_json(contents).dump(2));
  } else {
    for (const codegen::CacheItem& item : contents.items) {
      if (!item.damage.empty()) fmt::print("{}  {}\n", item.key, item.damage);
    }
    print_summary(contents);
    if (contents.num_damaged() == 0) {
      fmt::print("every kernel can be loaded\n");
    } else {
      fmt::print(
          "{} damaged: built again when they are needed; 'monograph cache gc' removes them\n",
          contents.num_damaged());
    }
  }
  return contents.num_damaged() == 0 ? 0 : 1;
}

int collect(const std::filesystem::path& directory, int64_t max_mb, double max_days, bool json) {
  codegen::CacheLimits limits;
  if (max_mb >= 0) limits.max_bytes = max_mb * kMB;
  if (max_days >= 0) limits.max_idle_s = max_days * kDayS;
  const codegen::CollectedGarbage garbage = codegen::collect_garbage(directory, limits);
  const codegen::CacheContents left = codegen::list_cache(directory, false);
  if (json) {
    fmt::print("{}\n", ordered_json({{"removed_kernels", garbage.num_entries},
                                     {"removed_files", garbage.num_files},
                                     {"removed_bytes", garbage.num_bytes},
                                     {"bytes_left", left.num_bytes}})
                           .dump(2));
    return 0;
  }
  fmt::print("removed {} kernels, {} files, {}\n", garbage.num_entries, garbage.num_files,
             bytes_text(garbage.num_bytes));
  print_summary(left);
  return 0;
}

}  // namespace

int run_cache(std::span<const std::string> args) {
  std::string action, directory;
  int64_t max_mb = -1;
  double max_days = -1;
  bool json = false;
  Arguments arguments("monograph cache", "lists, checks or cleans the cache of compiled kernels");
  arguments.positional("ACTION", &action, "what to do", Arguments::Presence::kRequired,
                       {"ls", "verify", "gc"});
  arguments.option("dir", &directory,
                   "the cache's folder; ${NAME} stands for a variable; default: "
                   "$MONOGRAPH_CACHE_DIR, else ~/.cache/monograph");
  arguments.option(
      "max-mb", &max_mb,
      "gc: remove the kernels used least recently until so much is left; -1: no limit");
  arguments.option("max-days", &max_days,
                   "gc: remove kernels that were not used for so many days; -1: no limit");
  arguments.option("json", &json, "print JSON");
  if (!arguments.parse(args)) return 0;
  if (max_mb < -1 || (max_days < 0 && max_days != -1)) {
    throw_user_error("--max-mb {} --max-days {}: use 0 or more, or -1 for no limit", max_mb,
                     max_days);
  }
  if (action != "gc" && (max_mb != -1 || max_days != -1)) {
    throw_user_error("--max-mb and --max-days are limits of gc: '{}' removes nothing", action);
  }
  const std::filesystem::path path = codegen::cache_directory(directory);
  if (action == "gc") return collect(path, max_mb, max_days, json);
  const codegen::CacheContents contents = codegen::list_cache(path, action == "verify");
  return action == "ls" ? list(contents, json) : verify(contents, json);
}

}  // namespace monograph::cli
