#include "diagnose/hang/stack_frame.h"

#include <algorithm>
#include <string_view>

namespace monograph::diagnose {

const StackFrame* user_frame(const std::vector<StackFrame>& frames) {
  auto inside = [](const StackFrame& frame) {
    std::string file = frame.file;
    std::replace(file.begin(), file.end(), '\\', '/');
    if (file.starts_with("torch/") || file.starts_with("<")) return true;
    for (std::string_view part :
         {"-packages/torch/", "/torch/distributed/", "/torch/nn/", "/torch/_"}) {
      if (file.find(part) != std::string::npos) return true;
    }
    return false;
  };
  for (const StackFrame& frame : frames) {
    if (!inside(frame)) return &frame;
  }
  return frames.empty() ? nullptr : &frames.front();
}

}  // namespace monograph::diagnose
