#pragma once

#include <span>
#include <string>

namespace monograph::cli {

// The verbs that read files and answer what is wrong: `monograph logs` and `monograph trace` take
// the same paths and options and differ in name and summary. Returns the exit status: 0 clean, 1
// findings, 2 nothing could be read.
int run_diagnosis(const std::string& program, const std::string& summary,
                  std::span<const std::string> args);

}  // namespace monograph::cli
