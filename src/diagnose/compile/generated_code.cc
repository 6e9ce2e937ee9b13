#include "diagnose/compile/generated_code.h"

#include <algorithm>

namespace monograph::diagnose {

std::int64_t count_launches(std::string_view code) {
  std::int64_t launches = 0;
  const std::size_t call = code.find("def call(");
  if (call == std::string_view::npos) return 0;
  code.remove_prefix(call);
  while (!code.empty()) {
    const std::size_t end = std::min(code.find('\n'), code.size());
    std::string_view line = code.substr(0, end);
    code.remove_prefix(std::min(code.size(), end + 1));
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) continue;
    line.remove_prefix(begin);
    if (line.starts_with("def ") && !line.starts_with("def call(") &&
        !line.starts_with("def partition")) {
      if (line.starts_with("def benchmark") || line.starts_with("def get_args")) break;
      continue;
    }
    const bool launch = (line.starts_with("triton_") && line.find(".run(") != line.npos) ||
                        line.starts_with("cpp_fused") || line.starts_with("extern_kernels.") ||
                        line.find(" = torch.ops.") != line.npos || line.starts_with("torch.ops.");
    if (launch) ++launches;
  }
  return launches;
}

std::int64_t count_nodes(std::string_view graph) {
  std::int64_t nodes = 0;
  for (std::size_t at = graph.find(" = torch.ops."); at != std::string_view::npos;
       at = graph.find(" = torch.ops.", at + 1)) {
    const std::string_view op = graph.substr(at + 13, 40);
    bool is_view = false;
    for (const std::string_view view :
         {"aten.view.", "aten.permute.", "aten.reshape.", "aten.expand.", "aten.unsqueeze.",
          "aten.squeeze.", "aten.slice.", "aten.select.", "aten.t.", "aten.transpose.",
          "aten.alias.", "aten.detach.", "aten.as_strided."}) {
      is_view = is_view || op.starts_with(view);
    }
    if (!is_view) ++nodes;
  }
  return nodes;
}

}  // namespace monograph::diagnose
