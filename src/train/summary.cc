#include <fmt/format.h>

#include "train/report.h"

namespace monograph::train {

void print_summary(std::FILE* out, const BuildReport& report, int num_guard_failures) {
  fmt::print(out, "graph breaks: {}\n", report.num_breaks);
  fmt::print(out, "compiled {} kernels ({} fused, {:.1f} %)\n", report.num_kernels,
             report.num_fused_kernels, 100 * report.fused_share());
  if (report.is_compiled && report.fused_share() < session::kExpectedFusedShare) {
    for (const auto& [cause, count] : report.unfused) {
      fmt::print(out, "  not fused: {} edge{}: {}\n", count, count == 1 ? "" : "s", cause);
    }
  }
  fmt::print(out, "guard failures: {}\n", num_guard_failures);
}

}  // namespace monograph::train
