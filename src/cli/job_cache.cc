#include "cli/job_cache.h"

#include "base/error.h"
#include "codegen/cache/directory.h"

namespace monograph::cli {

JobCache::JobCache(const std::string& pattern, bool is_removed) {
  if (!is_removed) return;
  if (pattern.find("${") == std::string::npos) {
    throw_user_error(
        "--remove-cache with --cache-dir '{}': give a folder of this job alone, as in "
        "'/scratch/${{SLURM_JOB_ID}}/rank_${{RANK}}'",
        pattern);
  }
  removed_ = codegen::cache_directory(pattern);
}

JobCache::~JobCache() {
  std::error_code ignored;
  if (!removed_.empty()) std::filesystem::remove_all(removed_, ignored);
}

}  // namespace monograph::cli
