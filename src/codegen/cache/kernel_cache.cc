#include "codegen/cache/kernel_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/error.h"

namespace monograph::codegen {
namespace {

namespace fs = std::filesystem;

constexpr auto kStaleAge = std::chrono::hours(1);

[[noreturn]] void throw_io(const std::string& what, const fs::path& path) {
  throw fs::filesystem_error(what, path, std::error_code(errno, std::generic_category()));
}

fs::path make_directory(const fs::path& prefix) {
  std::string name = prefix.string() + "-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw_io("cannot make a folder", prefix);
  return name;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "host";
}

// Visible under its name only when complete. Hosts may share the folder.
void write_atomically(const fs::path& path, std::string_view content) {
  const fs::path partial =
      path.string() + fmt::format(".{}.{}.{}.partial", host_name(), getpid(), gettid());
  write_file(partial, content);
  fs::rename(partial, path);
}

}  // namespace

void write_file(const fs::path& path, std::string_view content) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) throw_io("cannot write", path);
  while (!content.empty()) {
    const ssize_t count = write(file, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int error = errno;
      close(file);
      unlink(path.c_str());
      errno = error;
      throw_io("cannot write", path);
    }
    content.remove_prefix(static_cast<size_t>(count));
  }
  if (close(file) != 0) throw_io("cannot write", path);
}

std::optional<std::string> read_file(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::string content;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = read(file, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      close(file);
      return count < 0 ? std::nullopt : std::optional(std::move(content));
    }
    content.append(buffer, static_cast<size_t>(count));
  }
}

KernelCache::KernelCache(fs::path directory, Suffixes suffixes)
    : directory_(std::move(directory)), suffixes_(std::move(suffixes)) {
  try {
    create_folders(directory_);
    remove_stale_work();
  } catch (const fs::filesystem_error& error) {
    use_temporary_directory(error.code().message());
  }
}

KernelCache::~KernelCache() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void KernelCache::create_folders(const fs::path& directory) const {
  fs::create_directories(directory / "kernels");
  fs::create_directories(directory / "libraries");
  fs::create_directories(directory / "latest");
}

// A killed process leaves its work folder; nobody compiles for an hour.
void KernelCache::remove_stale_work() const {
  std::error_code ignored;
  for (const auto& item : fs::directory_iterator(directory_, ignored)) {
    if (!item.path().filename().string().starts_with("work-")) continue;
    const auto written = fs::last_write_time(item.path(), ignored);
    if (fs::file_time_type::clock::now() - written > kStaleAge) {
      fs::remove_all(item.path(), ignored);
    }
  }
}

void KernelCache::use_temporary_directory(const std::string& reason) {
  check(temporary_.empty(), "the temporary cache {} cannot be written: {}", temporary_.string(),
        reason);
  try {
    temporary_ = make_directory(temporary_root() / "monograph");
    create_folders(temporary_);
  } catch (const fs::filesystem_error& error) {
    throw_user_error(
        "compiled kernels can be written neither to the cache {} ({}) nor to {} ({}): free space "
        "or "
        "set MONOGRAPH_CACHE_DIR or TMPDIR to a folder that can be written",
        directory_.string(), reason, temporary_root().string(), error.code().message());
  }
  warnings_.push_back(
      fmt::format("the kernel cache {} cannot be written ({}): kernels are compiled in {} for this "
                  "process only; "
                  "set MONOGRAPH_CACHE_DIR to a folder that can be written",
                  directory_.string(), reason, temporary_.string()));
}

fs::path KernelCache::make_work_directory() {
  if (temporary_.empty()) {
    try {
      return make_directory(directory_ / fmt::format("work-{}", getpid()));
    } catch (const fs::filesystem_error& error) {
      use_temporary_directory(error.code().message());
    }
  }
  return make_directory(temporary_ / "work");
}

std::optional<KernelCache::Entry> KernelCache::find(const KeyParts& parts) {
  std::optional<Entry> entry;
  if (!temporary_.empty()) entry = find_in(temporary_, parts);
  if (!entry) entry = find_in(directory_, parts);
  if (!entry) ++misses_[reason_to_miss(directory_, parts)];
  return entry;
}

std::optional<KernelCache::Entry> KernelCache::find_in(const fs::path& directory,
                                                       const KeyParts& parts) {
  const std::string key = key_of(parts);
  const fs::path path = directory / "kernels" / (key + ".json");
  const std::optional<std::string> text = read_file(path);
  if (!text) return std::nullopt;
  const auto parsed = parse_entry(*text);
  if (const auto* damage = std::get_if<std::string>(&parsed)) {
    discard(parts, *damage);
    return std::nullopt;
  }
  const CacheEntry& entry = std::get<CacheEntry>(parsed);
  if (entry.key != parts) {
    discard(parts, "the entry is of another kernel, compiler or machine");
    return std::nullopt;
  }
  const fs::path library = directory / "libraries" / (entry.library + suffixes_.library);
  const std::optional<std::string> bytes = read_file(library);
  if (!bytes || hash_of(*bytes).hex() != entry.library) {
    discard(parts, bytes ? "the library's bytes are not those compiled" : "the library is missing");
    return std::nullopt;
  }
  std::error_code ignored;  // a cache that cannot be written serves, too
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return Entry{library, entry.symbol, directory / "kernels" / (key + suffixes_.source), entry.note,
               entry.compile_ns};
}

fs::path KernelCache::latest_of(const fs::path& directory, const KeyParts& parts) const {
  return directory / "latest" / (part_of(parts, "loop") + suffixes_.library);
}

// Against the last entry of the same Loop.
std::string KernelCache::reason_to_miss(const fs::path& directory, const KeyParts& parts) const {
  const std::optional<std::string> key = read_file(latest_of(directory, parts));
  if (!key) return "new kernel";
  const auto text = read_file(directory / "kernels" / (*key + ".json"));
  const auto parsed = parse_entry(text.value_or(""));
  const auto* const entry = std::get_if<CacheEntry>(&parsed);
  if (entry == nullptr || entry->key == parts) return "its entry is damaged or gone";
  std::string changes;
  for (const auto& [name, is] : parts) {
    const std::string was = part_of(entry->key, name);
    if (was == is) continue;
    if (!changes.empty()) changes += "; ";
    changes += name == "source" ? "source: the generated code is another"
                                : fmt::format("{} was '{}', is '{}'", name, was, is);
  }
  return changes;
}

void KernelCache::discard(const KeyParts& parts, const std::string& reason) {
  const fs::path entry = directory_ / "kernels" / (key_of(parts) + ".json");
  warnings_.push_back(fmt::format("cache entry {}: {}; it is built again", entry.string(), reason));
  std::error_code ignored;  // it is overwritten anyway, where the cache can be written
  fs::remove(entry, ignored);
}

fs::path KernelCache::add_library(const fs::path& compiled) {
  const std::optional<std::string> bytes = read_file(compiled);
  check(bytes.has_value(), "the compiler wrote no {}", compiled.string());
  const fs::path& directory = temporary_.empty() ? directory_ : temporary_;
  const fs::path library = directory / "libraries" / (hash_of(*bytes).hex() + suffixes_.library);
  fs::rename(compiled, library);
  return library;
}

KernelCache::Entry KernelCache::add(const KeyParts& parts, const fs::path& library,
                                    const std::string& symbol, const std::string& source,
                                    int64_t compile_ns, const std::string& note) {
  const std::string key = key_of(parts);
  const fs::path directory = library.parent_path().parent_path();
  const fs::path source_path = directory / "kernels" / (key + suffixes_.source);
  write_atomically(source_path, source);
  write_atomically(directory / "kernels" / (key + ".json"),
                   to_text(CacheEntry{parts, symbol, library.stem().string(), note, compile_ns}));
  write_atomically(latest_of(directory, parts), key);
  return {library, symbol, source_path, note, compile_ns};
}

}  // namespace monograph::codegen
