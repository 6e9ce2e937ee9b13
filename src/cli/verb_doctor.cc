#include <fmt/format.h>

#include <algorithm>

#include "cli/arguments.h"
#include "cli/verbs.h"
#include "launch/doctor/checks.h"
#include "launch/doctor/machine.h"

namespace monograph::cli {

int run_doctor(std::span<const std::string> args) {
  bool is_json = false;
  Arguments arguments("monograph doctor",
                      "says what of this host matters to a distributed job, what is wrong with it "
                      "and the line to set; exit status 1 if there is an error");
  arguments.option("json", &is_json, "as JSON");
  if (!arguments.parse(args)) return 0;
  const launch::Machine machine = launch::examine_machine("/");
  const std::vector<launch::Advice> advice = launch::check_machine(machine);
  fmt::print("{}", is_json ? advice_json(machine, advice) : advice_text(machine, advice));
  return std::any_of(
             advice.begin(), advice.end(),
             [](const launch::Advice& a) { return a.severity == launch::Advice::Severity::kError; })
             ? 1
             : 0;
}

}  // namespace monograph::cli
