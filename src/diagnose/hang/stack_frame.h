#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace monograph::diagnose {

struct StackFrame {
  std::string function;
  std::string file;
  int64_t line = 0;
};

// The innermost frame outside PyTorch's own files, else the innermost; nullptr if there is none.
// `frames` are innermost first.
const StackFrame* user_frame(const std::vector<StackFrame>& frames);

}  // namespace monograph::diagnose
