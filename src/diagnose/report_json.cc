#include <nlohmann/json.hpp>

#include "diagnose/finding.h"
#include "diagnose/report_words.h"

namespace monograph::diagnose {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Cell& cell) {
  return std::visit([](const auto& value) { return Json(value); }, cell);
}

Json json_of(const Finding& finding) {
  Json where = Json::object();
  where["ranks"] = finding.where.ranks;
  where["frame"] = finding.where.frame;
  where["file"] = finding.where.file;
  where["line"] = finding.where.line;
  where["collective"] = finding.where.collective;
  return {{"code", finding.code},        {"severity", name(finding.severity)},
          {"what", finding.what},        {"where", std::move(where)},
          {"why", finding.why},          {"advice", finding.advice},
          {"count", finding.count},      {"weight", finding.weight},
          {"evidence", finding.evidence}};
}

Json json_of(const Table& table) {
  Json rows = Json::array();
  for (const auto& row : table.rows) {
    Json cells = Json::array();
    for (const Cell& cell : row) cells.push_back(json_of(cell));
    rows.push_back(std::move(cells));
  }
  return {{"title", table.title}, {"columns", table.columns}, {"rows", std::move(rows)}};
}

Json json_of(const Section& section) {
  Json tables = Json::array();
  for (const Table& table : section.tables) tables.push_back(json_of(table));
  Json figures = Json::array();
  for (const Figure& figure : section.figures) {
    figures.push_back({{"title", figure.title}, {"text", figure.text}, {"dot", figure.dot}});
  }
  return {{"title", section.title},
          {"lines", section.lines},
          {"tables", std::move(tables)},
          {"figures", std::move(figures)}};
}

}  // namespace

std::string to_json(const Report& report) {
  Json all = {
      {"title", report.title},
      {"exit_status", exit_status(report)},
      {"answer", report.findings.empty() ? summary_line(report) : report.findings.front().what},
      {"files_read", report.files_read}};
  for (const char* key : {"findings", "sections"}) all[key] = Json::array();
  for (const Finding& finding : report.findings) all["findings"].push_back(json_of(finding));
  for (const Section& section : report.sections) all["sections"].push_back(json_of(section));
  all["statistics"] = Json::object();
  for (const Statistic& s : report.statistics) all["statistics"][s.name] = json_of(s.value);
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace monograph::diagnose
