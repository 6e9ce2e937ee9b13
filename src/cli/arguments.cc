#include "cli/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "cli/nearest.h"

namespace monograph::cli {

struct Arguments::Entry {
  std::string name;
  Target target;
  std::string doc;
  std::vector<std::string> allowed;
  bool is_positional = false;
  Presence presence = Presence::kOptional;
  std::string default_value;
  std::string label;  // as the user writes it: "--batch" or "MODEL"

  bool is_list() const { return std::holds_alternative<std::vector<std::string>*>(target); }
  bool is_flag() const { return std::holds_alternative<bool*>(target); }
};

struct Arguments::Parser {
  CLI::App app;
  bool wants_help = false;
  std::vector<std::pair<std::string, CLI::Option*>> required;
};

namespace {

template <typename Number>
bool parse_whole(const std::string& text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

// Writes the texts given on the command line to the target; a message of what is expected if they
// do not fit.
struct Assign {
  const std::vector<std::string>& texts;

  std::string operator()(bool*) const { return "no value"; }
  std::string operator()(std::int64_t* target) const {
    return parse_whole(texts[0], *target) ? "" : "a whole number";
  }
  std::string operator()(double* target) const {
    const bool is_good = parse_whole(texts[0], *target) && std::isfinite(*target);
    return is_good ? "" : "a finite number";
  }
  std::string operator()(std::string* target) const {
    *target = texts[0];
    return "";
  }
  std::string operator()(std::vector<std::string>* target) const {
    *target = texts;
    return "";
  }
};

std::string show_default(const Arguments::Target& target) {
  return std::visit(
      [](auto* value) -> std::string {
        using Value = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>) return *value ? "on" : "";
        if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
          return fmt::format("{}", fmt::join(*value, ","));
        } else {
          return fmt::format("{}", *value);
        }
      },
      target);
}

std::string type_name(const Arguments::Target& target) {
  static constexpr const char* kNames[] = {"", "INTEGER", "NUMBER", "TEXT", "TEXT[,TEXT...]"};
  return kNames[target.index()];
}

std::string upper(std::string text) {
  for (char& c : text) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return text;
}

void print_rows(std::string& out, const std::vector<std::pair<std::string, std::string>>& rows) {
  std::size_t width = 0;
  for (const auto& [left, right] : rows) width = std::max(width, left.size());
  for (const auto& [left, right] : rows) out += fmt::format("  {:<{}}  {}\n", left, width, right);
}

}  // namespace

Arguments::Arguments(std::string program, std::string summary)
    : program_(std::move(program)),
      summary_(std::move(summary)),
      parser_(std::make_unique<Parser>()) {
  parser_->app.set_help_flag();  // ours: CLI11's would win over errors and exits by exception
  parser_->app.add_flag("-h,--help", parser_->wants_help);
  parser_->app.allow_extras();  // reported by check_leftovers with the nearest name
}

Arguments::~Arguments() = default;

void Arguments::option(const std::string& name, Target target, std::string doc,
                       std::vector<std::string> allowed) {
  add({.name = name,
       .target = target,
       .doc = std::move(doc),
       .allowed = std::move(allowed),
       .default_value = show_default(target),
       .label = "--" + name});
}

void Arguments::positional(const std::string& name, Target target, std::string doc,
                           Presence presence, std::vector<std::string> allowed) {
  add({.name = name,
       .target = target,
       .doc = std::move(doc),
       .allowed = std::move(allowed),
       .is_positional = true,
       .presence = presence,
       .default_value = presence == Presence::kOptional ? show_default(target) : "",
       .label = upper(name)});
}

void Arguments::add(Entry entry) {
  check(!(entry.is_flag() && (entry.is_positional || !entry.allowed.empty())),
        "{} is a flag: it takes no value", entry.label);
  CLI::App& app = parser_->app;
  if (entry.is_flag()) {
    app.add_flag(fmt::format("--{0},!--no-{0}", entry.name), *std::get<bool*>(entry.target));
    entries_.push_back(std::move(entry));
    return;
  }
  const auto assign = [entry, program = program_](const CLI::results_t& texts) {
    for (const std::string& text : texts) {
      if (entry.allowed.empty()) break;
      if (std::find(entry.allowed.begin(), entry.allowed.end(), text) != entry.allowed.end())
        continue;
      const std::string close = nearest(text, entry.allowed);
      throw_user_error("[{}] {} '{}' is unknown{}: use {}", program, entry.label, text,
                       close.empty() ? "" : fmt::format(" (did you mean {}?)", close),
                       fmt::join(entry.allowed, ", "));
    }
    const std::string expected = std::visit(Assign{texts}, entry.target);
    if (!expected.empty())
      throw_user_error("[{}] {} '{}' is not valid: give {}", program, entry.label, texts[0],
                       expected);
    return true;
  };
  CLI::Option* option = app.add_option(entry.is_positional ? entry.name : entry.label, assign);
  option->type_name(type_name(entry.target));
  if (entry.is_list()) {
    option->delimiter(',')->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    if (entry.is_positional) option->expected(-1);
    if (!entry.is_positional) option->allow_extra_args(false);
  }
  if (entry.presence == Presence::kRequired) parser_->required.emplace_back(entry.label, option);
  entries_.push_back(std::move(entry));
}

bool Arguments::parse(std::span<const std::string> args) {
  std::vector<std::string> reversed(args.rbegin(), args.rend());  // the order CLI11 asks for
  try {
    parser_->app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    throw_user_error("[{}] {} (see '{} --help')", program_, error.what(), program_);
  }
  if (parser_->wants_help) {
    fmt::print("{}", help());
    return false;
  }
  check_leftovers(parser_->app.remaining());
  for (const auto& [label, option] : parser_->required) {
    if (option->count() == 0)
      throw_user_error("[{}] {} is missing: see '{} --help'", program_, label, program_);
  }
  return true;
}

void Arguments::check_leftovers(const std::vector<std::string>& leftovers) const {
  if (leftovers.empty()) return;
  std::vector<std::string> names = {"--help"};
  for (const Entry& entry : entries_) {
    if (!entry.is_positional) names.push_back(entry.label);
  }
  for (const std::string& leftover : leftovers) {
    if (leftover.size() < 2 || leftover[0] != '-') continue;
    const std::string given = leftover.substr(0, leftover.find('='));
    const std::string close = nearest(given, names);
    throw_user_error("[{}] unknown option {}{}: the options are {}", program_, given,
                     close.empty() ? "" : fmt::format(" (did you mean {}?)", close),
                     fmt::join(names, ", "));
  }
  const auto num_positionals = entries_.size() + 1 - names.size();
  throw_user_error("[{}] '{}' is one argument too many: {} expected (see '{} --help')", program_,
                   leftovers[0], num_positionals, program_);
}

std::string Arguments::help() const {
  std::string usage = program_;
  std::vector<std::pair<std::string, std::string>> positionals;
  std::vector<std::pair<std::string, std::string>> options;
  for (const Entry& entry : entries_) {
    const bool is_optional = entry.presence == Presence::kOptional;
    std::string doc = entry.doc;
    if (!entry.default_value.empty()) doc += fmt::format(" (default: {})", entry.default_value);
    std::string type = type_name(entry.target);
    if (!entry.allowed.empty()) type = fmt::format("{}", fmt::join(entry.allowed, "|"));
    if (entry.is_positional) {
      const std::string shown = entry.label + (entry.is_list() ? "..." : "");
      usage += is_optional ? fmt::format(" [{}]", shown) : " " + shown;
      if (!entry.allowed.empty()) doc += fmt::format(": {}", type);
      positionals.emplace_back(shown, doc);
    } else if (entry.is_flag()) {
      options.emplace_back(fmt::format("--[no-]{}", entry.name), doc);
    } else {
      options.emplace_back(entry.label + " " + type, doc);
    }
  }
  options.emplace_back("--help", "print this text");
  std::string out = fmt::format("{}: {}\n\nusage: {} [options]\n", program_, summary_, usage);
  if (!positionals.empty()) out += "\n";
  print_rows(out, positionals);
  out += "\noptions\n";
  print_rows(out, options);
  return out;
}

}  // namespace monograph::cli
