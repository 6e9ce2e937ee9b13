#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/hang/stack_frame.h"

namespace monograph::diagnose {

// An exception that ended a process.
struct Failure {
  int rank = -1;     // -1: the log does not say
  std::string type;  // "torch.OutOfMemoryError"; empty where only a message was logged
  std::string message;
  std::vector<StackFrame> frames;  // innermost first; may be empty
};

// "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", without module and the rest
// of a long message.
std::string title(const Failure& failure);

// True for what a rank raises because another one is gone or late: a lost connection, an aborted
// communicator, a time-out. The cause is then elsewhere.
bool is_consequence(const Failure& failure);

// True for what the compiler raises; the compiler's own findings tell of it.
bool is_of_compiler(const Failure& failure);

// What to do; names the option or variable where the message is a known one.
std::string failure_advice(const Failure& failure);

// Finds the exceptions in a log line by line; lines of several ranks may be mixed.
class TracebackReader {
 public:
  TracebackReader();
  ~TracebackReader();

  // The exception whose last line this is. `text` keeps the indentation that Python gave it.
  std::optional<Failure> read(std::string_view text, int rank);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace monograph::diagnose
