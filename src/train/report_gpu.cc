#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "train/report.h"

namespace monograph::train {

std::vector<GpuKernelRow> make_gpu_rows(const session::Build& build, double copy_bandwidth) {
  const codegen::cuda::CompiledKernels& kernels = build.cuda_kernels;
  std::map<int, GpuKernelRow> by_kernel;
  for (const ir::Step& step : build.compilation.program.steps) {
    const auto* work = std::get_if<ir::KernelStep>(&step.work);
    if (work == nullptr || kernels.images.empty()) continue;
    GpuKernelRow& row = by_kernel[work->kernel];
    ++row.num_calls;
    if (row.num_calls > 1) continue;
    const size_t scope = step.name.find(": ");
    row.name = fmt::format("kernel {} {}", work->kernel,
                           scope == std::string::npos ? step.name : step.name.substr(scope + 2));
    row.bytes_moved = step.bytes_moved;
    row.predicted_ms = static_cast<double>(step.bytes_moved) / copy_bandwidth * 1e3;
    const ir::KernelImage& image = kernels.images[work->kernel];
    for (size_t f = 0; f < image.launches.size(); ++f) {
      const codegen::cuda::FunctionUse& use = kernels.functions[work->kernel][f];
      row.registers = std::max(row.registers, use.registers);
      row.shared_bytes =
          std::max<int64_t>(row.shared_bytes, use.shared_bytes + image.launches[f].shared_bytes);
      row.spilled_bytes += use.spilled_bytes + use.stack_bytes;
    }
  }
  std::vector<GpuKernelRow> rows;
  for (auto& [kernel, row] : by_kernel) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(), [](const GpuKernelRow& a, const GpuKernelRow& b) {
    return a.predicted_ms * a.num_calls > b.predicted_ms * b.num_calls;
  });
  return rows;
}

void print(std::FILE* out, std::span<const GpuKernelRow> rows) {
  if (rows.empty()) return;
  fmt::print(out, "\n{:<52} {:>5} {:>5} {:>8} {:>6} {:>10} {:>11}\n", "for the GPU", "calls",
             "regs", "shared B", "spills", "MB a call", "ms a call");
  double total = 0;
  for (const GpuKernelRow& row : rows) {
    total += row.predicted_ms * row.num_calls;
    fmt::print(out, "{:<52.52} {:>5} {:>5} {:>8} {:>6} {:>10.1f} {:>11.4f}\n", row.name,
               row.num_calls, row.registers, row.shared_bytes, row.spilled_bytes,
               static_cast<double>(row.bytes_moved) / 1e6, row.predicted_ms);
  }
  fmt::print(out, "generated kernels at the bandwidth of a copy: {:.3f} ms a step\n", total);
}

}  // namespace monograph::train
