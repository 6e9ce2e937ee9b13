#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "diagnose/input.h"
#include "diagnose/timeline/timeline.h"

namespace monograph::diagnose {

// True for the head of a Chrome trace that PyTorch's profiler (Kineto) wrote, or of another with
// its fields.
bool looks_like_kineto(std::string_view head);

// Writes the next bytes of a file to `buffer` and returns how many; 0 at the end.
using ReadBytes = std::function<size_t(char* buffer, size_t capacity)>;

// Reads a Kineto trace; memory grows with the device work in it, not with the file. Damaged events
// are skipped and counted; a file that ends early gives what it held. Throws UserError if it held
// no event at all.
Timeline read_kineto(std::string source, const ReadBytes& read, const ReadOptions& options = {});

}  // namespace monograph::diagnose
