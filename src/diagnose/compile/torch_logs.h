#pragma once

#include <memory>

#include "diagnose/reader.h"

namespace monograph::diagnose {

// Reads what torch's compiler writes with TORCH_LOGS, of versions 2.1 to 2.15, into CompileFacts.
std::unique_ptr<LineReader> make_torch_logs_reader();

}  // namespace monograph::diagnose
