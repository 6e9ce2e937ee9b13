#include <fmt/format.h>

#include <algorithm>

#include "diagnose/finding.h"
#include "diagnose/report_words.h"
#include "diagnose/text_table.h"

namespace monograph::diagnose {
namespace {

constexpr std::size_t kMaxFindings = 20;
constexpr std::size_t kMaxEvidence = 6;
constexpr std::size_t kMaxRows = 30;

class Writer {
 public:
  Writer(Colour colour, int width)
      : colour_(colour == Colour::kOn), width_(static_cast<std::size_t>(std::max(40, width))) {}

  std::string text;

  std::string paint(std::string_view what, std::string_view code) const {
    if (!colour_ || what.empty()) return std::string(what);
    return fmt::format("\x1b[{}m{}\x1b[0m", code, what);
  }

  // "  why      words that wrap under each other"
  void labelled(std::string_view label, std::string_view value) {
    if (value.empty()) return;
    constexpr std::size_t kIndent = 11;
    text += "  " + paint(fmt::format("{:<{}}", label, kIndent - 2), "2");
    wrapped(value, kIndent);
  }

  // Breaks at spaces; the first line is taken to be at column `indent` already.
  void wrapped(std::string_view value, std::size_t indent) {
    std::size_t column = indent;
    bool first = true;
    while (!value.empty()) {
      const std::size_t end = std::min(value.find_first_of(" \n"), value.size());
      const std::string_view word = value.substr(0, end);
      const std::size_t size = columns_of(word);
      if (!first && column + 1 + size > width_) {
        text += "\n" + std::string(indent, ' ');
        column = indent;
      } else if (!first) {
        text += ' ';
        ++column;
      }
      text += word;
      column += size;
      first = false;
      const bool line_break = end < value.size() && value[end] == '\n';
      value.remove_prefix(std::min(value.size(), end + 1));
      if (line_break && !value.empty()) {
        text += "\n" + std::string(indent, ' ');
        column = indent;
        first = true;
      }
    }
    text += '\n';
  }

  // One line, cut at the width.
  void cut(std::string_view prefix, std::string_view value) {
    text += fmt::format("{}{}\n", prefix, paint(cut_to(value, width_ - prefix.size()), "2"));
  }

  void finding(const Finding& finding) {
    const std::string_view code = finding.severity == Severity::kError     ? "1;31"
                                  : finding.severity == Severity::kWarning ? "1;33"
                                                                           : "1;36";
    text += paint(fmt::format("{:<9}", name(finding.severity)), code) + "  ";
    std::string what = finding.what;
    if (finding.count > 1) what += fmt::format(" ({} times)", with_commas(finding.count));
    wrapped(what, 11);
    labelled("where", describe(finding.where));
    labelled("why", finding.why);
    labelled("do", finding.advice);
    const std::size_t shown = std::min(kMaxEvidence, finding.evidence.size());
    for (std::size_t i = 0; i < shown; ++i) cut("  | ", finding.evidence[i]);
    if (shown < finding.evidence.size()) {
      text += fmt::format("  | and {} more\n", finding.evidence.size() - shown);
    }
    text += '\n';
  }

  void table(const Table& table) {
    constexpr std::string_view kIndent = "    ";
    if (!table.title.empty()) text += fmt::format("  {}\n", table.title);
    const TextTable lines = lay_out(table, width_ - kIndent.size(), kMaxRows);
    for (const std::string& line : lines.heading) {
      text += fmt::format("{}{}\n", kIndent, paint(line, "2"));
    }
    for (const std::string& line : lines.rows) text += fmt::format("{}{}\n", kIndent, line);
    if (lines.rows.size() < table.rows.size()) {
      text += fmt::format("{}{} more rows, with --json\n", kIndent,
                          table.rows.size() - lines.rows.size());
    }
    text += '\n';
  }

 private:
  bool colour_;
  std::size_t width_;
};

}  // namespace

std::string to_text(const Report& report, Colour colour, int width) {
  Writer out(colour, width);
  out.text = out.paint(report.title, "1") + "  " + summary_line(report) + "\n\n";
  for (std::size_t i = 0; i < report.findings.size(); ++i) {
    if (i == kMaxFindings) {
      out.text += fmt::format("{} more findings, with --json\n\n", report.findings.size() - i);
      break;
    }
    out.finding(report.findings[i]);
  }
  for (const Section& section : report.sections) {
    out.text += out.paint(section.title, "1") + "\n";
    for (const std::string& line : section.lines) {
      out.text += "  ";
      out.wrapped(line, 2);
    }
    if (!section.lines.empty()) out.text += '\n';
    for (const Table& table : section.tables) out.table(table);
    for (const Figure& figure : section.figures) {
      if (figure.text.empty()) continue;
      if (!figure.title.empty()) out.text += "  " + figure.title + "\n";
      out.text += figure.text + "\n";
    }
  }
  while (out.text.ends_with("\n\n")) out.text.pop_back();
  return out.text;
}

}  // namespace monograph::diagnose
