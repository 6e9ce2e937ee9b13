#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "codegen/cache/directory.h"
#include "codegen/cache/entry.h"

namespace monograph::codegen {

// A folder of compiled kernels, content-addressed, that many processes may use at once: files
// appear by rename only and are never changed.
//   kernels/KEY.json           a CacheEntry
//   kernels/KEY.cc             the source of the kernel (.cu)
//   libraries/CHECKSUM.so      compiled kernels; the name is the hash of the bytes (.cubin)
//   latest/LOOP.so             the KEY of the last entry of a Loop, to say why it is not used
//   work-PID-XXXXXX/           what a process is compiling
// Where the folder cannot be written, a temporary one takes its place until the end of the process,
// and a warning says so. A hit sets the time of its entry, for `monograph cache gc`.
class KernelCache {
 public:
  // How the files of compiled kernels and their sources end.
  struct Suffixes {
    std::string library = ".so", source = ".cc";
  };
  explicit KernelCache(std::filesystem::path directory) : KernelCache(std::move(directory), {}) {}
  KernelCache(std::filesystem::path directory, Suffixes suffixes);
  ~KernelCache();
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  struct Entry {
    std::filesystem::path library;  // its bytes have been checked
    std::string symbol;
    std::filesystem::path source;
    std::string note = {};   // what the compiler said that is worth keeping
    int64_t compile_ns = 0;  // what compiling it took, once
  };
  // The entry of a key. Empty when there is none, or when it is damaged or of another key: it is
  // then removed, with a warning.
  std::optional<Entry> find(const KeyParts& parts);
  // Forgets an entry that turned out to be unusable, with a warning.
  void discard(const KeyParts& parts, const std::string& reason);

  // A new folder to compile in. UserError when neither the cache nor a temporary folder can be
  // written.
  std::filesystem::path make_work_directory();
  // From now on writes to a temporary folder, for `reason`. UserError when that cannot be made
  // either.
  void use_temporary_directory(const std::string& reason);

  // Takes a compiled library into the cache (it is moved).
  std::filesystem::path add_library(const std::filesystem::path& compiled);
  // std::filesystem::filesystem_error when the disk is full or read-only.
  Entry add(const KeyParts& parts, const std::filesystem::path& library, const std::string& symbol,
            const std::string& source, int64_t compile_ns, const std::string& note = {});

  const std::vector<std::string>& warnings() const { return warnings_; }
  // Why find() found nothing, with how many kernels were missed for it: "new kernel", "compiler was
  // 'g++ 12.2', is 'g++ 13.1'".
  const std::map<std::string, int>& misses() const { return misses_; }

 private:
  std::optional<Entry> find_in(const std::filesystem::path& directory, const KeyParts& parts);
  std::string reason_to_miss(const std::filesystem::path& directory, const KeyParts& parts) const;
  std::filesystem::path latest_of(const std::filesystem::path& directory,
                                  const KeyParts& parts) const;
  void create_folders(const std::filesystem::path& directory) const;
  void remove_stale_work() const;

  std::filesystem::path directory_;
  Suffixes suffixes_;
  std::filesystem::path temporary_;  // empty: the cache itself is written to
  std::vector<std::string> warnings_;
  std::map<std::string, int> misses_;
};

// Writes a whole file or throws std::filesystem::filesystem_error with the system's reason.
void write_file(const std::filesystem::path& path, std::string_view content);
std::optional<std::string> read_file(const std::filesystem::path& path);

}  // namespace monograph::codegen
