#include "cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <vector>

#include "base/error.h"
#include "cli/nearest.h"

namespace monograph::cli {
namespace {

constexpr const char* kOutputLost = "standard output could not be written: is the disk full?";

void print_verbs(std::span<const Verb> verbs) {
  std::size_t width = 0;
  for (const Verb& verb : verbs) width = std::max(width, verb.name.size());
  fmt::print("monograph {}: one training step, one static graph\n\n", MONOGRAPH_VERSION);
  fmt::print("usage: monograph VERB [arguments]\n\n");
  for (const Verb& verb : verbs) fmt::print("  {:<{}}  {}\n", verb.name, width, verb.summary);
  fmt::print("\n'monograph VERB --help' tells the arguments of a verb\n");
}

int run_verb(std::span<const Verb> verbs, std::span<const std::string> args) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs) {
    if (verb.name == args[0]) return verb.run(args.subspan(1));
    names.emplace_back(verb.name);
  }
  const std::string close = nearest(args[0], names);
  throw_user_error("unknown verb '{}'{}: use one of {}", args[0],
                   close.empty() ? "" : fmt::format(" (did you mean {}?)", close),
                   fmt::join(names, ", "));
}

int dispatch(std::span<const Verb> verbs, std::span<const std::string> args) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h") {
    print_verbs(verbs);
    return 0;
  }
  if (args[0] == "--version") {
    fmt::print("monograph {}\n", MONOGRAPH_VERSION);
    return 0;
  }
  return run_verb(verbs, args);
}

bool is_output_lost() {
  return std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
}

int fail(int status, const char* message) {
  std::fflush(stdout);
  fmt::print(stderr, "error: {}\n", message);
  return status;
}

}  // namespace

int run_command_line(std::span<const Verb> verbs, std::span<const std::string> args) {
  try {
    const int status = dispatch(verbs, args);
    return is_output_lost() ? fail(kExitOutput, kOutputLost) : status;
  } catch (const UserError& error) {
    return fail(kExitUser, error.what());
  } catch (const CommError& error) {
    return fail(kExitComm, error.what());
  } catch (const std::exception& error) {
    // A print that fails is an exception too.
    if (is_output_lost()) return fail(kExitOutput, kOutputLost);
    return fail(kExitInternal, error.what());
  }
}

}  // namespace monograph::cli
