#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "codegen/cache/entry.h"

namespace monograph::codegen {

// What lies in a cache folder, for people who look after it. Everything here may run while other
// processes compile: a kernel that goes just before it is loaded is built again.

struct CacheItem {
  std::string key;            // of the entry's file
  CacheEntry entry;           // empty where damaged
  std::string damage;         // why it cannot be loaded; empty: it can
  int64_t num_bytes = 0;      // of the entry and its source
  int64_t library_bytes = 0;  // of the library, which others may share
  double idle_s = 0;          // since it was last used
};

struct CacheContents {
  std::filesystem::path directory;
  std::vector<CacheItem> items;                  // used last first
  std::vector<std::filesystem::path> orphans;    // libraries that no entry names
  std::vector<std::filesystem::path> leftovers;  // of processes that were killed
  int64_t num_bytes = 0;                         // of all files

  int num_damaged() const;
};

// `checks_bytes`: compares each library with its checksum. A folder that is not there is an empty
// cache. UserError when it cannot be read.
CacheContents list_cache(const std::filesystem::path& directory, bool checks_bytes);

struct CacheLimits {
  int64_t max_bytes = -1;  // of all files; those used least recently go first; -1: no limit
  double max_idle_s = -1;  // entries not used for so long go
};

struct CollectedGarbage {
  int num_entries = 0, num_files = 0;
  int64_t num_bytes = 0;
};

// Removes damaged entries, what was left behind more than an hour ago, and what the limits do not
// allow. UserError when something cannot be removed.
CollectedGarbage collect_garbage(const std::filesystem::path& directory, const CacheLimits& limits);

}  // namespace monograph::codegen
