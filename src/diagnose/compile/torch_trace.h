#pragma once

#include <memory>
#include <string_view>

#include "diagnose/reader.h"

namespace monograph::diagnose {

// True for the head of a TORCH_TRACE structured log.
bool accepts_torch_trace(std::string_view head, std::string_view path);

// Reads such a log, of one process, into CompileFacts. Torn records are counted and left out.
std::unique_ptr<Facts> read_torch_trace(Input& input);

}  // namespace monograph::diagnose
