#pragma once

#include <span>
#include <string>

#include "cli/verbs.h"

namespace monograph::cli {

// Exit statuses beside 0 and those that a verb returns itself.
inline constexpr int kExitUser = 2;       // the input is at fault: the message says how to mend it
inline constexpr int kExitInternal = 70;  // a bug in Monograph (EX_SOFTWARE)
inline constexpr int kExitOutput = 74;    // standard output could not be written (EX_IOERR)
inline constexpr int kExitComm = 75;      // a collective failed; worth another try (EX_TEMPFAIL)

// Runs `monograph ARGS...` (args without the program's name) with these verbs: prints the table of
// verbs or the version, or runs a verb. Errors are printed on stderr as `error: ...` and become the
// exit status; nothing is thrown.
int run_command_line(std::span<const Verb> verbs, std::span<const std::string> args);

}  // namespace monograph::cli
