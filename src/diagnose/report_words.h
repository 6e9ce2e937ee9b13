#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "diagnose/finding.h"

// Words that the text, JSON and HTML forms of a report share.
namespace monograph::diagnose {

// 12,345,678
std::string with_commas(std::int64_t value);

// "1 finding", "2,000 findings"; `plural` where an s is not enough
std::string count_of(std::int64_t value, std::string_view noun, std::string_view plural = {});

// Whole numbers with commas, others with four digits that matter.
std::string cell_text(const Cell& cell);

// "2 findings, 1 note in 4 files" or "clean: nothing found in 4 files"
std::string summary_line(const Report& report);

}  // namespace monograph::diagnose
