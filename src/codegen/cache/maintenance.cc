#include "codegen/cache/maintenance.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "codegen/cache/kernel_cache.h"

namespace monograph::codegen {
namespace {

namespace fs = std::filesystem;

constexpr double kStaleS = 3600;  // nobody compiles for an hour

double age_of(const fs::path& path) {
  std::error_code ignored;
  const auto written = fs::last_write_time(path, ignored);
  if (ignored) return 0;
  return std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
}

int64_t size_of(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    files.push_back(it->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw_user_error("cannot read the cache folder {}: {}", folder.string(), error.message());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string damage_of(const CacheEntry& entry, const std::string& key, const fs::path& library,
                      bool checks_bytes) {
  if (key_of(entry.key) != key) return "the entry is not the one of its name";
  const auto bytes = checks_bytes ? read_file(library) : std::nullopt;
  if (library.empty() || (checks_bytes && !bytes)) return "the library is missing";
  if (checks_bytes && hash_of(*bytes).hex() != entry.library) {
    return "the library's bytes are not those compiled";
  }
  return "";
}

class Listing {
 public:
  Listing(fs::path directory, bool checks_bytes) : checks_bytes_(checks_bytes) {
    contents_.directory = std::move(directory);
  }

  CacheContents run() {
    for (const fs::path& path : files_in(contents_.directory / "libraries")) {
      contents_.num_bytes += size_of(path);
      if (path.extension() == ".partial") {
        contents_.leftovers.push_back(path);
      } else {
        libraries_[path.stem().string()] = path;
      }
    }
    for (const fs::path& path : files_in(contents_.directory / "kernels")) add(path);
    for (const fs::path& path : files_in(contents_.directory / "latest")) {
      contents_.num_bytes += size_of(path);
      if (path.extension() == ".partial") contents_.leftovers.push_back(path);
    }
    for (const auto& [checksum, path] : libraries_) {
      if (!named_.contains(checksum)) contents_.orphans.push_back(path);
    }
    for (const fs::path& path : files_in(contents_.directory)) {
      if (path.filename().string().starts_with("work-")) contents_.leftovers.push_back(path);
    }
    std::stable_sort(contents_.items.begin(), contents_.items.end(),
                     [](const auto& a, const auto& b) { return a.idle_s < b.idle_s; });
    return std::move(contents_);
  }

 private:
  void add(const fs::path& path) {
    contents_.num_bytes += size_of(path);
    if (path.extension() == ".partial") contents_.leftovers.push_back(path);
    if (path.extension() != ".json") return;
    CacheItem item;
    item.key = path.stem().string();
    item.idle_s = age_of(path);
    item.num_bytes = size_of(path);
    for (const char* source : {".cc", ".cu"}) {
      item.num_bytes += size_of(fs::path(path).replace_extension(source));
    }
    auto parsed = parse_entry(read_file(path).value_or(""));
    if (const auto* damage = std::get_if<std::string>(&parsed)) {
      item.damage = *damage;
    } else {
      item.entry = std::get<CacheEntry>(std::move(parsed));
      const auto library = libraries_.find(item.entry.library);
      const fs::path file = library == libraries_.end() ? fs::path() : library->second;
      item.library_bytes = size_of(file);
      item.damage = damage_of(item.entry, item.key, file, checks_bytes_);
      named_.insert(item.entry.library);
    }
    contents_.items.push_back(std::move(item));
  }

  const bool checks_bytes_;
  CacheContents contents_;
  std::map<std::string, fs::path> libraries_;  // by checksum
  std::set<std::string> named_;                // by entries
};

class Collection {
 public:
  Collection(const fs::path& directory, const CacheLimits& limits)
      : contents_(list_cache(directory, true)), limits_(limits), left_(contents_.num_bytes) {}

  CollectedGarbage run() {
    for (const CacheItem& item : contents_.items) {
      if (item.damage.empty()) ++users_[item.entry.library];
    }
    for (const fs::path& path : contents_.leftovers) {
      if (age_of(path) > kStaleS) remove(path);
    }
    for (const fs::path& path : contents_.orphans) {
      if (age_of(path) > kStaleS) remove(path);
    }
    for (auto item = contents_.items.rbegin(); item != contents_.items.rend(); ++item) {
      const bool is_idle = limits_.max_idle_s >= 0 && item->idle_s > limits_.max_idle_s;
      const bool is_too_much = limits_.max_bytes >= 0 && left_ > limits_.max_bytes;
      if (!item->damage.empty() || is_idle || is_too_much) remove(*item);
    }
    for (const fs::path& pointer : files_in(contents_.directory / "latest")) {
      const std::string key = read_file(pointer).value_or("");
      if (!fs::exists(contents_.directory / "kernels" / (key + ".json"))) remove(pointer);
    }
    return result_;
  }

 private:
  void remove(const CacheItem& item) {
    const fs::path entry = contents_.directory / "kernels" / (item.key + ".json");
    remove(entry);
    for (const char* source : {".cc", ".cu"}) remove(fs::path(entry).replace_extension(source));
    ++result_.num_entries;
    const auto users = users_.find(item.entry.library);
    if (!item.damage.empty() || users == users_.end() || --users->second > 0) return;
    for (const char* suffix : {".so", ".cubin"}) {
      remove(contents_.directory / "libraries" / (item.entry.library + suffix));
    }
  }

  void remove(const fs::path& path) {
    const int64_t bytes = fs::is_directory(path) ? 0 : size_of(path);
    std::error_code error;
    const auto count = fs::remove_all(path, error);
    if (error) throw_user_error("cannot remove {}: {}", path.string(), error.message());
    result_.num_files += static_cast<int>(count);
    result_.num_bytes += bytes;
    left_ -= bytes;
  }

  const CacheContents contents_;
  const CacheLimits limits_;
  int64_t left_;
  std::map<std::string, int> users_;  // entries by library
  CollectedGarbage result_;
};

}  // namespace

int CacheContents::num_damaged() const {
  return static_cast<int>(std::count_if(items.begin(), items.end(),
                                        [](const auto& item) { return !item.damage.empty(); }));
}

CacheContents list_cache(const fs::path& directory, bool checks_bytes) {
  return Listing(directory, checks_bytes).run();
}

CollectedGarbage collect_garbage(const fs::path& directory, const CacheLimits& limits) {
  return Collection(directory, limits).run();
}

}  // namespace monograph::codegen
