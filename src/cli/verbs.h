#pragma once

#include <span>
#include <string>
#include <string_view>

// The verbs of `monograph`. Each lives in its own verb_NAME.cc; its function is declared here and
// listed in verbs.cc.
namespace monograph::cli {

struct Verb {
  std::string_view name;
  std::string_view summary;  // one line, lower case, no full stop
  // Gets the arguments after the verb and returns the exit status. Throws UserError for bad input.
  int (*run)(std::span<const std::string> args);
};

int run_bisect(std::span<const std::string> args);
int run_cache(std::span<const std::string> args);
int run_compress_sweep(std::span<const std::string> args);
int run_compile(std::span<const std::string> args);
int run_explain(std::span<const std::string> args);
int run_doctor(std::span<const std::string> args);
int run_logs(std::span<const std::string> args);
int run_run(std::span<const std::string> args);
int run_trace(std::span<const std::string> args);
int run_validate(std::span<const std::string> args);
int run_train(std::span<const std::string> args);

// In the order in which they are shown.
std::span<const Verb> verbs();

}  // namespace monograph::cli
