#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/reader.h"

// Text logs: takes off what terminals and launchers put around a line, takes apart lines that
// several writers tore into each other, and gives each to all LineReaders.
namespace monograph::diagnose {

// What the line readers found in one file.
struct TextFacts : Facts {
  FactsList parts;
  std::int64_t num_lines = 0;
};

bool looks_like_text(std::string_view head, std::string_view path);
std::unique_ptr<Facts> read_text_log(Input& input);

// Removes ANSI escapes. Returns `raw` itself if there is none, else `storage`.
std::string_view strip_ansi(std::string_view raw, std::string& storage);

// Takes launcher prefixes off the front of `text`: "[rank1]:", "[default0]:", "[0] ",
// "(Worker pid=1) ", "[2024-08-21 03:38:02] ", "3: ", "> ". Returns the rank that they name, or -1.
int strip_launcher(std::string_view& text);

// The offset of the first glog-like head ("V0804 12:34:12.819000 ", "[E626 06:24:44.903881913 ")
// at or after `from`; npos if there is none.
std::size_t find_log_head(std::string_view text, std::size_t from);

// Appends the lines in `raw`: cut at each log head inside it and at carriage returns. Their views
// lie in `raw` or `storage`.
void split_raw_line(std::string_view raw, std::int64_t number, std::string& storage,
                    std::vector<Line>& lines);

}  // namespace monograph::diagnose
