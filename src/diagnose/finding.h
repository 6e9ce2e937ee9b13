#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// What every reader and analysis of this room answers with, and how it is shown.
namespace monograph::diagnose {

// kNote is worth knowing but is no fault: it does not change the exit status.
enum class Severity { kNote, kWarning, kError };

// Where something happened, as far as the input says. Empty members are not shown.
struct Place {
  std::vector<int> ranks;  // ascending; empty: unknown, or a job of one process
  std::string frame;       // function and compile id, e.g. "forward [2/0]"
  std::string file;        // user source, as the log spells it
  int line = 0;            // in `file`; 0: unknown
  std::string collective;  // e.g. "all_reduce #17 of group tp"
};

struct Finding {
  std::string code;  // stable snake_case name of the kind of fault, e.g. "graph_break"
  Severity severity = Severity::kWarning;
  std::string what;  // one sentence: what happened
  Place where;
  std::string why;                    // the cause, as specific as the input allows
  std::string advice;                 // what to do; names the line, option or variable to change
  std::vector<std::string> evidence;  // lines of the input that show it, best first
  std::int64_t count = 1;             // how often it was seen
  double weight =
      0;  // order among findings of one severity, heaviest first; of one code comparable
};

// Numbers stay numbers in JSON.
using Cell = std::variant<std::string, std::int64_t, double>;

struct Table {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;  // each as long as `columns`
};

// A drawing: `text` for the terminal, `svg` (one <svg> element, no scripts, no outside references)
// for the page, `dot` (in Graphviz's language) for JSON. Each may be empty.
struct Figure {
  std::string title;
  std::string text;
  std::string svg;
  std::string dot = {};
};

// Facts below the findings.
struct Section {
  std::string title;
  std::vector<std::string> lines;
  std::vector<Table> tables;
  std::vector<Figure> figures;
};

struct Statistic {
  std::string name;  // snake_case with its unit, e.g. "compile_seconds"
  Cell value;
};

struct Report {
  std::string title;  // e.g. "monograph logs"
  std::vector<Finding> findings;
  std::vector<Section> sections;
  std::vector<Statistic> statistics;
  std::int64_t files_read = 0;
};

// Severest first, then heaviest, then by code and place: the first is the answer.
void sort_findings(Report& report);

// 2: no file could be read. 1: some finding is worse than a note. 0: clean.
int exit_status(const Report& report);

enum class Colour { kOff, kOn };

// For the terminal: the answer first, then each finding with its evidence, then the sections.
// Lines wrap at `width` columns. Expects sorted findings.
std::string to_text(const Report& report, Colour colour, int width = 100);

// One object: {title, exit_status, answer, findings, sections, statistics}. Always valid UTF-8.
std::string to_json(const Report& report);

// One page that needs no other file and no network.
std::string to_html(const Report& report);

std::string_view name(Severity severity);

// "rank 2, forward [2/0], train.py:31": the parts of a place that are known; "" if none is.
std::string describe(const Place& place);

// "rank 3", "ranks 0-3, 7"
std::string describe_ranks(const std::vector<int>& ranks);

}  // namespace monograph::diagnose
