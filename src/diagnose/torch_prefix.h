#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace monograph::diagnose {

// What torch's log formatter puts before a message. Views into the line.
struct TorchPrefix {
  char level = 'V';             // V I W E C
  std::string_view stamp;       // "0804 12:34:12.819000"; empty if a launcher's was taken for it
  std::string_view process;     // process or, up to 2.3, thread id; may be empty
  std::string_view source;      // "torch/_dynamo/guards.py:2791", or a logger's name before 2.2
  std::string_view compile_id;  // "0/1_1", without brackets; may be empty
  std::string_view artifact;    // "recompiles"; may be empty
  std::string_view message;     // with its indentation
};

// Parses both shapes:
//   V0804 12:34:12.819000 1142857 torch/_dynamo/guards.py:2791] [0/1] [__recompiles] message
//   [0/1] torch._dynamo.guards.__recompiles: [DEBUG] message     (time stamp taken off before)
std::optional<TorchPrefix> parse_torch_prefix(std::string_view line);

// True if the compiler (Dynamo, AOTAutograd, Inductor) wrote the record.
bool is_compiler_record(const TorchPrefix& prefix);

// "0/1" of "0/1_1": what names a compilation whatever its attempt.
std::string_view without_attempt(std::string_view compile_id);

// Seconds since the year began (a leap year, and local time: the stamp says neither) of
// "0804 12:34:12.819000"; -1 if malformed.
double seconds_of_stamp(std::string_view stamp);

// True for places inside PyTorch itself or another installed package: nothing a user would edit.
bool is_library_file(std::string_view file);
bool is_torch_file(std::string_view file);

// What follows the last slash or backslash.
std::string_view base_name(std::string_view path);

}  // namespace monograph::diagnose
