#pragma once

#include <filesystem>
#include <string>

namespace monograph::cli {

// A folder of compiled kernels that goes with the job.
class JobCache {
 public:
  // `pattern`: of the folder, with ${VARIABLES}. Does nothing unless `is_removed`. UserError when
  // it has no variable: it might be the cache of all jobs.
  JobCache(const std::string& pattern, bool is_removed);
  ~JobCache();
  JobCache(const JobCache&) = delete;
  JobCache& operator=(const JobCache&) = delete;

 private:
  std::filesystem::path removed_;  // empty: none
};

}  // namespace monograph::cli
