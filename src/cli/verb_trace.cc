#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/verbs.h"
#include "diagnose/finding.h"
#include "diagnose/source.h"

namespace monograph::cli {

// Exit status 0 clean, 1 findings, 2 nothing could be read.
int run_trace(std::span<const std::string> args) {
  std::vector<std::string> paths;
  bool json = false;
  std::string html;
  Arguments arguments(
      "monograph trace",
      "overlap, exposed communication, idle time, stragglers and copies from Kineto and Nsight "
      "Systems traces; hangs from flight recorder dumps");
  arguments.positional("PATH", &paths, "trace files, or folders of them; .gz too");
  arguments.option("json", &json, "print one JSON object instead of text");
  arguments.option("html", &html, "also write the report as one HTML page to this file");
  if (!arguments.parse(args)) return 0;
  diagnose::Report report = diagnose::diagnose_paths(paths, "monograph trace");
  if (!html.empty()) {
    std::ofstream out(html, std::ios::binary);
    out << diagnose::to_html(report);
    if (!out.flush())
      throw_user_error("cannot write '{}': give a path in a folder that you may write to", html);
  }
  auto colour = isatty(STDOUT_FILENO) != 0 ? diagnose::Colour::kOn : diagnose::Colour::kOff;
  std::string text = json ? diagnose::to_json(report) + "\n" : diagnose::to_text(report, colour);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return diagnose::exit_status(report);
}

}  // namespace monograph::cli
