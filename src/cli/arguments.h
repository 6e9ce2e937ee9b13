#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace monograph::cli {

// The options and positional arguments of one verb, declared with their defaults and read into the
// caller's variables:
//
//   std::int64_t batch = 8;
//   Arguments arguments("monograph train", "trains a model on text");
//   arguments.option("batch", &batch, "rows in a step");
//   if (!arguments.parse(args)) return 0;  // --help was asked for and printed
//
// The value a target holds when it is declared is its default, and --help shows it.
class Arguments {
 public:
  // Where a value goes. bool: --NAME and --no-NAME, no value. vector: repeatable, and split at
  // commas; the first value given replaces the default.
  using Target =
      std::variant<bool*, std::int64_t*, double*, std::string*, std::vector<std::string>*>;
  enum class Presence { kRequired, kOptional };

  Arguments(std::string program, std::string summary);
  ~Arguments();
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // Adds --NAME. A non-empty `allowed` is the list of valid values (not for bool).
  void option(const std::string& name, Target target, std::string doc,
              std::vector<std::string> allowed = {});

  // Adds the next positional argument. A vector takes all that are left and must come last.
  void positional(const std::string& name, Target target, std::string doc,
                  Presence presence = Presence::kRequired, std::vector<std::string> allowed = {});

  // Reads args (without the program's name) into the targets. Returns false when --help was among
  // them: help() has been printed and the verb should return 0. Throws UserError for an unknown
  // option (naming the nearest), a value that is missing, malformed or not allowed, a missing
  // positional, and one too many.
  bool parse(std::span<const std::string> args);

  std::string help() const;

 private:
  struct Entry;
  struct Parser;  // holds CLI11, which only arguments.cc includes: it takes 9 s to compile

  void add(Entry entry);
  void check_leftovers(const std::vector<std::string>& leftovers) const;

  std::string program_;
  std::string summary_;
  std::vector<Entry> entries_;
  std::unique_ptr<Parser> parser_;
};

}  // namespace monograph::cli
