#include <fmt/format.h>

#include <algorithm>

#include "diagnose/finding.h"
#include "diagnose/report_words.h"
#include "diagnose/svg.h"
#include "diagnose/text_table.h"

namespace monograph::diagnose {
namespace {

constexpr std::string_view kStyle = R"(
:root{--text:#1c2024;--dim:#667079;--line:#dfe3e6;--soft:#f5f7f8;--page:#fff;
--error:#c62828;--warning:#b26a00;--note:#00708f}
@media(prefers-color-scheme:dark){:root{--text:#e6e8ea;--dim:#98a1a9;--line:#343a40;
--soft:#1d2125;--page:#14171a;--error:#ff7369;--warning:#f0ad4e;--note:#5cc3e0}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1180px;padding:28px 24px 60px;background:var(--page);
color:var(--text);font:15px/1.5 system-ui,"Segoe UI",Roboto,sans-serif}
h1{font-size:22px;margin:0}h2{font-size:18px;margin:36px 0 10px;border-bottom:1px solid var(--line);
padding-bottom:4px}h3{font-size:15px;margin:18px 0 6px}
.sum{color:var(--dim);margin:2px 0 22px}
.finding{border:1px solid var(--line);border-left:4px solid var(--c);border-radius:5px;
padding:10px 16px;margin:0 0 12px}
.finding.error{--c:var(--error)}.finding.warning{--c:var(--warning)}.finding.note{--c:var(--note)}
.finding>p{margin:0;font-weight:600}.finding b{color:var(--c);font-size:12px;
text-transform:uppercase;letter-spacing:.04em;margin-right:8px}
.finding.first{background:var(--soft)}.finding.first>p{font-size:17px}
dl{display:grid;grid-template-columns:64px 1fr;gap:2px 10px;margin:6px 0 0}
dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere;white-space:pre-line}
details{margin-top:6px}summary{color:var(--dim);cursor:pointer}
pre{background:var(--soft);border:1px solid var(--line);border-radius:4px;padding:8px 10px;
overflow:auto;margin:6px 0;font:12px/1.45 ui-monospace,Menlo,Consolas,monospace}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13.5px;margin:4px 0 14px}
th{text-align:left;color:var(--dim);font-weight:500;border-bottom:1px solid var(--line)}
th,td{padding:3px 14px 3px 0;vertical-align:top}td{border-bottom:1px solid var(--soft);
overflow-wrap:break-word}.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
figure{margin:10px 0;overflow-x:auto}figcaption{color:var(--dim);font-size:13.5px}
svg{max-width:100%;height:auto;background:#fff;border-radius:4px}
)";

void add_finding(const Finding& finding, bool first, std::string& html) {
  html +=
      fmt::format("<div class=\"finding {}{}\"><p><b>{}</b>{}{}</p><dl>", name(finding.severity),
                  first ? " first" : "", name(finding.severity), escape_xml(finding.what),
                  finding.count > 1 ? fmt::format(" ({} times)", with_commas(finding.count)) : "");
  const auto add = [&](std::string_view label, std::string_view value) {
    if (!value.empty()) html += fmt::format("<dt>{}</dt><dd>{}</dd>", label, escape_xml(value));
  };
  add("where", describe(finding.where));
  add("why", finding.why);
  add("do", finding.advice);
  html += "</dl>";
  if (!finding.evidence.empty()) {
    html +=
        fmt::format("<details{}><summary>evidence, {} line{}</summary><pre>", first ? " open" : "",
                    finding.evidence.size(), finding.evidence.size() == 1 ? "" : "s");
    for (const std::string& line : finding.evidence) html += escape_xml(line) + "\n";
    html += "</pre></details>";
  }
  html += "</div>\n";
}

void add_table(const Table& table, std::string& html) {
  if (!table.title.empty()) html += fmt::format("<h3>{}</h3>", escape_xml(table.title));
  html += "<div class=\"scroll\"><table><tr>";
  std::vector<const char*> classes;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    classes.push_back(is_text_column(table, i) ? "" : " class=\"n\"");
  }
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    html += fmt::format("<th{}>{}</th>", classes[i], escape_xml(table.columns[i]));
  }
  html += "</tr>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < std::min(row.size(), classes.size()); ++i) {
      html += fmt::format("<td{}>{}</td>", classes[i], escape_xml(cell_text(row[i])));
    }
    html += "</tr>\n";
  }
  html += "</table></div>\n";
}

void add_section(const Section& section, std::string& html) {
  html += fmt::format("<h2>{}</h2>\n", escape_xml(section.title));
  for (const std::string& line : section.lines)
    html += fmt::format("<p>{}</p>\n", escape_xml(line));
  for (const Figure& figure : section.figures) {
    html += fmt::format("<figure><figcaption>{}</figcaption>", escape_xml(figure.title));
    html += figure.svg.empty() ? "<pre>" + escape_xml(figure.text) + "</pre>" : figure.svg;
    html += "</figure>\n";
  }
  for (const Table& table : section.tables) add_table(table, html);
}

}  // namespace

std::string to_html(const Report& report) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\"><title>{}</title>"
      "<style>{}</style></head><body>\n<h1>{}</h1><p class=\"sum\">{}</p>\n",
      escape_xml(report.title), kStyle, escape_xml(report.title), escape_xml(summary_line(report)));
  for (std::size_t i = 0; i < report.findings.size(); ++i) {
    add_finding(report.findings[i], i == 0, html);
  }
  for (const Section& section : report.sections) add_section(section, html);
  if (!report.statistics.empty()) {
    Table table{"", {"statistic", "value"}, {}};
    for (const Statistic& s : report.statistics) {
      table.rows.push_back({s.name, cell_text(s.value)});
    }
    html += "<h2>Statistics</h2>\n";
    add_table(table, html);
  }
  return html + "</body></html>\n";
}

}  // namespace monograph::diagnose
