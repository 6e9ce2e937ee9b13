#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "diagnose/finding.h"
#include "diagnose/report_words.h"

namespace monograph::diagnose {
namespace {

constexpr std::size_t kMaxFindings = 20;
constexpr std::size_t kMaxEvidence = 6;
constexpr std::size_t kMaxRows = 30;

// Columns on a terminal, counting one per code point.
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

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
    std::size_t room = width_ > prefix.size() + 1 ? width_ - prefix.size() - 1 : 1;
    std::string line;
    for (const char c : value) {
      const bool starts = (static_cast<unsigned char>(c) & 0xC0) != 0x80;
      if (starts && room-- == 0) {
        line += "…";
        break;
      }
      line += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    text += fmt::format("{}{}\n", prefix, paint(line, "2"));
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
      text += fmt::format("  | {} more lines\n", finding.evidence.size() - shown);
    }
    text += '\n';
  }

  void table(const Table& table) {
    std::vector<std::vector<std::string>> rows{table.columns};
    for (const auto& row : table.rows) {
      if (rows.size() > kMaxRows) break;
      std::vector<std::string>& cells = rows.emplace_back();
      for (const Cell& cell : row) {
        cells.push_back(cell_text(cell));
        std::replace(cells.back().begin(), cells.back().end(), '\n', ' ');
      }
    }
    std::vector<std::size_t> widths(table.columns.size(), 0);
    for (const auto& row : rows) {
      for (std::size_t i = 0; i < widths.size() && i < row.size(); ++i) {
        widths[i] = std::min<std::size_t>(60, std::max(widths[i], columns_of(row[i])));
      }
    }
    if (!table.title.empty()) text += fmt::format("  {}\n", table.title);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::string line = "    ";
      for (std::size_t i = 0; i < widths.size() && i < rows[r].size(); ++i) {
        const std::size_t have = columns_of(rows[r][i]);
        const std::string pad(widths[i] > have ? widths[i] - have : 0, ' ');
        const bool right = !table.rows.empty() && i < table.rows[0].size() &&
                           !std::holds_alternative<std::string>(table.rows[0][i]);
        line += (right ? pad + rows[r][i] : rows[r][i] + pad) + "  ";
      }
      while (!line.empty() && line.back() == ' ') line.pop_back();
      text += (r == 0 ? paint(line, "2") : line) + "\n";
    }
    if (rows.size() <= table.rows.size()) {
      text += fmt::format("    {} more rows, with --json\n", table.rows.size() + 1 - rows.size());
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
    for (const std::string& line : section.lines) out.text += "  " + line + "\n";
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
