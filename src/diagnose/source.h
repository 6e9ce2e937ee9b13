#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "diagnose/finding.h"
#include "diagnose/input.h"
#include "diagnose/reader.h"

// Files and folders in, facts out.
namespace monograph::diagnose {

// The files below `paths`, folders searched in depth, in sorted order, hidden files left out.
// A path that does not exist becomes a finding.
std::vector<std::string> find_files(const std::vector<std::string>& paths, Report& report);

// The rank that a file's name says ("..._rank_3_x.log", "rank3.txt", "r3"), else its folder's
// ("rank_3/err.log", torchrun's "attempt_0/3/stderr.log"); -1 if none.
int rank_of_name(std::string_view path);

// The folder of the job that a file belongs to: its own, or the one above if that stands for a
// rank.
std::string job_folder(std::string_view path);

// Reads everything below `paths` with the registered readers, draws all conclusions, sorts. No
// threads in `options`: one for each core.
Report diagnose_paths(const std::vector<std::string>& paths, std::string title,
                      ReadOptions options = {.num_threads = 0});

}  // namespace monograph::diagnose
