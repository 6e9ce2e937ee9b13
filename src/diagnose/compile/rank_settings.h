#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "diagnose/compile/job.h"

namespace monograph::diagnose {

// One option with a value on each side, as JSON.
struct SettingChange {
  std::string name;
  std::string before;
  std::string after;
};

// The options in which two dumps of a configuration differ, but for the order of lists (sets, when
// they were written) and what may differ by rank: folders, files, logs. Empty if a dump is no JSON.
std::vector<SettingChange> setting_changes(std::string_view before, std::string_view after);

// Findings about versions and compiler options that are not the same on all ranks.
void compare_settings(const CompileJob& job, Report& report);

}  // namespace monograph::diagnose
