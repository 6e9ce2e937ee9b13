#pragma once

#include <span>
#include <string>
#include <string_view>

namespace monograph::cli {

// The candidate that the fewest edits (insert, delete, replace, swap of neighbours) turn `given`
// into, the first one on a tie; empty when even that one is further than a third of the longer
// word, so that a hint is never far-fetched.
std::string nearest(std::string_view given, std::span<const std::string> candidates);

}  // namespace monograph::cli
