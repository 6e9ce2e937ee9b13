#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/finding.h"

namespace monograph::diagnose {

// Columns on a terminal, counting one per code point.
std::size_t columns_of(std::string_view text);

// The first `columns` of the text, the last of them "…" if that is not all of it; control
// characters become spaces.
std::string cut_to(std::string_view text, std::size_t columns);

// Whether no cell of the column is a number; "-" may stand among numbers.
bool is_text_column(const Table& table, std::size_t column);

// A table as lines of at most `width` columns, as far as that can be: headings wrap, then the
// widest columns of text are cut.
struct TextTable {
  std::vector<std::string> heading;
  std::vector<std::string> rows;
};
TextTable lay_out(const Table& table, std::size_t width, std::size_t max_rows);

}  // namespace monograph::diagnose
