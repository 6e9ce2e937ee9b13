#include "diagnose/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace monograph::diagnose {

std::string_view name(Severity severity) {
  switch (severity) {
    case Severity::kNote:
      return "note";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "";
}

void sort_findings(Report& report) {
  std::stable_sort(
      report.findings.begin(), report.findings.end(), [](const Finding& a, const Finding& b) {
        return std::forward_as_tuple(b.severity, b.weight, a.code, a.where.file, a.where.line,
                                     a.what) < std::forward_as_tuple(a.severity, a.weight, b.code,
                                                                     b.where.file, b.where.line,
                                                                     b.what);
      });
}

int exit_status(const Report& report) {
  if (report.files_read == 0) return 2;
  const bool any = std::any_of(report.findings.begin(), report.findings.end(),
                               [](const Finding& f) { return f.severity != Severity::kNote; });
  return any ? 1 : 0;
}

std::string describe_ranks(const std::vector<int>& ranks) {
  if (ranks.empty()) return "";
  std::string list;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!list.empty()) list += ", ";
    list += std::to_string(ranks[i]);
    if (last > i) list += fmt::format("{}{}", last == i + 1 ? ", " : "-", ranks[last]);
    i = last + 1;
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + list;
}

std::string describe(const Place& place) {
  std::string text = describe_ranks(place.ranks);
  const auto add = [&](const std::string& part) {
    if (part.empty()) return;
    if (!text.empty()) text += ", ";
    text += part;
  };
  add(place.frame);
  add(place.line > 0 ? fmt::format("{}:{}", place.file, place.line) : place.file);
  add(place.collective);
  return text;
}

}  // namespace monograph::diagnose
