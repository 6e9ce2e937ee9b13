#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "diagnose/timeline/timeline.h"

namespace monograph::diagnose {

bool looks_like_sqlite(std::string_view head);

// Reads what `nsys export --type sqlite` wrote, of any version: tables and columns are used as far
// as they are there. One timeline for each process and device. The database is opened read-only;
// views and virtual tables in it are not touched. Throws UserError naming the path if it is damaged
// or holds no CUDA activity.
std::vector<Timeline> read_nsight_file(const std::string& path);

// The same for a database in memory, as it comes out of a compressed file.
std::vector<Timeline> read_nsight_bytes(std::string bytes, const std::string& path);

}  // namespace monograph::diagnose
