#include "cli/diagnosis.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "cli/arguments.h"
#include "diagnose/finding.h"
#include "diagnose/source.h"

namespace monograph::cli {
namespace {

constexpr int kWidthOfFiles = 100;
constexpr int kWidest = 160;

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kWidthOfFiles;
  return std::min<int>(size.ws_col, kWidest);
}

void write_page(const diagnose::Report& report, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  out << diagnose::to_html(report);
  if (!out.flush()) {
    throw_user_error("cannot write '{}': give a path in a folder that you may write to", path);
  }
}

}  // namespace

int run_diagnosis(const std::string& program, const std::string& summary,
                  std::span<const std::string> args) {
  std::vector<std::string> paths;
  bool json = false;
  std::string html;
  Arguments arguments(program, summary);
  arguments.positional("PATH", &paths, "files, or folders of them; .gz too");
  arguments.option("json", &json, "print one JSON object instead of text");
  arguments.option("html", &html, "also write the report as one HTML page to this file");
  if (!arguments.parse(args)) return 0;
  const diagnose::Report report = diagnose::diagnose_paths(paths, program);
  if (!html.empty()) write_page(report, html);
  const auto colour = isatty(STDOUT_FILENO) != 0 ? diagnose::Colour::kOn : diagnose::Colour::kOff;
  const std::string text =
      json ? diagnose::to_json(report) : diagnose::to_text(report, colour, terminal_width());
  std::fwrite(text.data(), 1, text.size(), stdout);
  return diagnose::exit_status(report);
}

}  // namespace monograph::cli
