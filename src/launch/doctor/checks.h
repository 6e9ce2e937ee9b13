#pragma once

#include <string>
#include <vector>

#include "launch/doctor/machine.h"

namespace monograph::launch {

struct Advice {
  enum class Severity { kError, kWarning, kNote };
  Severity severity;
  std::string code;  // "shm_small"
  std::string what;  // with the value found
  std::string why;   // what goes wrong by it
  std::string set;   // the line to type or set
};

// What is wrong with this machine for a distributed job, errors first. Looks at nothing but the
// machine given.
std::vector<Advice> check_machine(const Machine& machine);

std::string advice_text(const Machine& machine, const std::vector<Advice>& advice);
std::string advice_json(const Machine& machine, const std::vector<Advice>& advice);

}  // namespace monograph::launch
