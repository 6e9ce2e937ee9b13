#include "diagnose/text_table.h"

#include <algorithm>

#include "diagnose/report_words.h"

namespace monograph::diagnose {
namespace {

constexpr std::size_t kBetween = 2;
constexpr std::size_t kLeastText = 12;  // columns of text are not cut below this

struct Column {
  bool is_text = true;
  std::size_t data = 0;  // the widest cell
  std::size_t width = 0;
};

std::size_t longest_word(std::string_view text) {
  std::size_t longest = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    longest = std::max(longest, columns_of(text.substr(0, end)));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return longest;
}

// The words of a heading in lines of `width`.
std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    if (!lines.back().empty() && columns_of(lines.back()) + 1 + columns_of(word) > width) {
      lines.emplace_back();
    }
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

std::size_t total(const std::vector<Column>& columns) {
  std::size_t sum = 0;
  for (const Column& column : columns) sum += column.width + kBetween;
  return sum - std::min(sum, kBetween);
}

void fit(const Table& table, std::size_t width, std::vector<Column>& columns) {
  if (total(columns) <= width) return;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns[i].width = std::max(columns[i].data, longest_word(table.columns[i]));
  }
  while (total(columns) > width) {
    Column* widest = nullptr;
    for (Column& column : columns) {
      const bool may = column.is_text && column.width > kLeastText;
      if (may && (widest == nullptr || column.width > widest->width)) widest = &column;
    }
    if (widest == nullptr) return;
    --widest->width;
  }
}

std::string padded(const std::string& text, const Column& column) {
  const std::string cell = column.is_text ? cut_to(text, column.width) : text;
  const std::size_t have = columns_of(cell);
  const std::string pad(column.width > have ? column.width - have : 0, ' ');
  return column.is_text ? cell + pad : pad + cell;
}

std::string joined(const std::vector<std::string>& cells, const std::vector<Column>& columns) {
  std::string line;
  for (std::size_t i = 0; i < columns.size() && i < cells.size(); ++i) {
    line += padded(cells[i], columns[i]) + std::string(kBetween, ' ');
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace

bool is_text_column(const Table& table, std::size_t column) {
  return std::all_of(table.rows.begin(), table.rows.end(), [&](const std::vector<Cell>& row) {
    return column >= row.size() || std::holds_alternative<std::string>(row[column]);
  });
}

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string cut_to(std::string_view text, std::size_t columns) {
  const bool fits = columns_of(text) <= columns;
  std::size_t room = fits || columns == 0 ? columns : columns - 1;
  std::string line;
  for (const char c : text) {
    const bool starts = (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (starts && room-- == 0) break;
    line += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return fits ? line : line + "…";
}

TextTable lay_out(const Table& table, std::size_t width, std::size_t max_rows) {
  std::vector<std::vector<std::string>> cells;
  for (const auto& row : table.rows) {
    if (cells.size() == max_rows) break;
    auto& texts = cells.emplace_back();
    for (const Cell& cell : row) texts.push_back(cell_text(cell));
  }
  std::vector<Column> columns(table.columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns[i].is_text = is_text_column(table, i);
    for (const auto& row : cells) {
      if (i < row.size()) columns[i].data = std::max(columns[i].data, columns_of(row[i]));
    }
    columns[i].width = std::max(columns[i].data, columns_of(table.columns[i]));
  }
  fit(table, width, columns);
  TextTable text;
  std::vector<std::vector<std::string>> headings;
  std::size_t height = 0;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    headings.push_back(wrap(table.columns[i], columns[i].width));
    height = std::max(height, headings.back().size());
  }
  for (std::size_t line = 0; line < height; ++line) {
    std::vector<std::string> parts;
    for (const auto& heading : headings) {
      const std::size_t above = height - heading.size();  // headings stand on their columns
      parts.push_back(line < above ? "" : heading[line - above]);
    }
    text.heading.push_back(joined(parts, columns));
  }
  for (const auto& row : cells) text.rows.push_back(joined(row, columns));
  return text;
}

}  // namespace monograph::diagnose
