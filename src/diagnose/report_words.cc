#include "diagnose/report_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace monograph::diagnose {

std::string with_commas(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t sign = value < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > sign + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string count_of(std::int64_t value, std::string_view noun, std::string_view plural) {
  if (value == 1) return fmt::format("1 {}", noun);
  return plural.empty() ? fmt::format("{} {}s", with_commas(value), noun)
                        : fmt::format("{} {}", with_commas(value), plural);
}

std::string cell_text(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return with_commas(*whole);
  const double value = std::get<double>(cell);
  if (std::isfinite(value) && std::abs(value) >= 1000 && std::abs(value) < 1e15) {
    return with_commas(std::llround(value));
  }
  return fmt::format("{:.4g}", value);
}

std::string summary_line(const Report& report) {
  const auto notes = std::count_if(report.findings.begin(), report.findings.end(),
                                   [](const auto& f) { return f.severity == Severity::kNote; });
  const auto faults = static_cast<std::int64_t>(report.findings.size()) - notes;
  if (report.files_read == 0) return "nothing could be read";
  std::string line = faults == 0 ? "clean: nothing wrong" : count_of(faults, "finding");
  if (notes > 0) line += ", " + count_of(notes, "note");
  return line + " in " + count_of(report.files_read, "file");
}

}  // namespace monograph::diagnose
