#include "train/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "analysis/traffic.h"
#include "train/pipeline_report.h"

namespace monograph::train {
namespace {

constexpr size_t kMaxRows = 24;

double ms(int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}
double mb(int64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

double percentile_ms(std::span<const int64_t> ns, double share) {
  std::vector<int64_t> sorted(ns.begin(), ns.end());
  const auto place = static_cast<size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5);
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<int64_t>(place), sorted.end());
  return ms(sorted[place]);
}

bool is_copy(const ir::Node& node) {
  if (node.body() == nullptr) return false;
  const auto& nodes = node.body()->nodes();
  return nodes.size() == 2 && nodes[1]->is("clone");
}

std::string work_name(const ir::Step& step, bool* is_library) {
  *is_library = true;
  if (const auto* kernel = std::get_if<ir::KernelStep>(&step.work)) {
    *is_library = false;
    const size_t scope = step.name.find(": ");
    const std::string ops = scope == std::string::npos ? step.name : step.name.substr(scope + 2);
    return fmt::format("kernel {} {}", kernel->kernel, ops);
  }
  if (const auto* gemm = std::get_if<ir::GemmStep>(&step.work)) {
    int64_t batch = 1;
    for (const int64_t extent : gemm->batch) batch *= extent;
    return fmt::format("product {} {}x{}x{}{}", ir::dtype_name(gemm->dtype), gemm->m, gemm->n,
                       gemm->k, batch == 1 ? "" : fmt::format(" x{}", batch));
  }
  return step.name.substr(step.name.rfind(' ') + 1);
}

std::vector<std::string> exchange_lines(const BuildReport& r) {
  if (r.num_collectives == 0 && r.left_out.num_collectives == 0) return {};
  const std::string left_out =
      fmt::format("; {} left out, {:.1f} MB", r.left_out.num_collectives, mb(r.left_out.bytes));
  std::vector<std::string> lines = {fmt::format(
      "{} collectives, {} of them buckets; {:.1f} MB a step{}", r.num_collectives, r.num_buckets,
      mb(r.exchanged_bytes), r.left_out.num_collectives == 0 ? "" : left_out)};
  if (r.savings.num_gradients > 0) {
    lines.push_back(fmt::format("{} gradients compressed: a rank sends {:.3f} MB, not {:.3f}",
                                r.savings.num_gradients, mb(r.savings.bytes_after),
                                mb(r.savings.bytes_before)));
  }
  return lines;
}

}  // namespace

std::string grouped(int64_t number) {
  std::string digits = fmt::format("{}", number);
  for (int at = static_cast<int>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    digits.insert(at, ",");
  }
  return digits;
}

double BuildReport::fused_share() const {
  return num_kernel_nodes == 0 ? 1 : static_cast<double>(num_fused_nodes) / num_kernel_nodes;
}

BuildReport make_build_report(const session::TraceRecord& record, const session::Build* build) {
  BuildReport report;
  report.graph_hash = record.hash.hex();
  report.num_traced_nodes = record.num_nodes;
  report.trace_ns = record.trace_ns;
  report.savings = record.savings;
  report.verify_ns = record.verify_ns;
  report.num_breaks = record.num_breaks;
  report.pipeline = record.pipeline;
  if (build == nullptr) return report;
  report.is_compiled = true;
  const compiler::Compilation& compilation = build->compilation;
  report.num_nodes = compilation.graph->num_nodes();
  report.num_passes = static_cast<int>(compilation.passes.size());
  for (const auto& pass : compilation.passes) report.passes_ns += pass.duration_ns;
  report.lower_ns = compilation.lower_ns;
  report.codegen_ns = build->kernels.compile_ns + build->cuda_kernels.compile_ns;
  report.num_kernels = static_cast<int>(compilation.program.kernels.size());
  report.num_cached_kernels = build->kernels.num_from_cache + build->cuda_kernels.num_from_cache;
  report.unfused = session::unfused_edges(compilation.remarks);
  report.misses = build->kernels.misses;
  report.misses.insert(build->cuda_kernels.misses.begin(), build->cuda_kernels.misses.end());
  std::vector<bool> is_fused(compilation.program.kernels.size(), false);
  for (const ir::Step& step : compilation.program.steps) {
    const auto* kernel = std::get_if<ir::KernelStep>(&step.work);
    if (const auto* collective = std::get_if<ir::CollectiveStep>(&step.work)) {
      ++report.num_collectives;
      report.num_buckets += collective->num_tensors > 1;
      report.exchanged_bytes += collective->num_bytes();
      continue;
    }
    if (kernel == nullptr) {
      report.num_library_calls += !std::holds_alternative<ir::WaitStep>(step.work);
      continue;
    }
    report.num_kernel_nodes += step.num_nodes;
    if (step.num_nodes > 1) {
      report.num_fused_nodes += step.num_nodes;
      is_fused[kernel->kernel] = true;
    }
    report.bytes_moved += step.bytes_moved;
    report.bytes_least += step.bytes_least;
  }
  report.num_fused_kernels = static_cast<int>(std::count(is_fused.begin(), is_fused.end(), true));
  for (const auto& edge : analysis::avoidable_edges(*compilation.graph)) {
    report.bytes_least -= edge.bytes;
  }
  for (const auto& node : compilation.graph->nodes()) report.num_copies += is_copy(*node);
  report.peak_bytes = compilation.program.peak_bytes;
  report.bound_bytes = compilation.program.bound_bytes;
  report.recomputation = compilation.recomputation;
  report.left_out = compilation.left_out;
  return report;
}

void print(std::FILE* out, const BuildReport& r) {
  const auto line = [&](const char* stage, const std::string& text, int64_t ns) {
    fmt::print(out, "{:<9} {:<66}", stage, text);
    if (ns >= 0) fmt::print(out, "{:>7.0f} ms", ms(ns));
    fmt::print(out, "\n");
  };
  line("trace",
       fmt::format("{} graph{}, {} nodes, {} breaks, hash {}", r.num_breaks + 1,
                   r.num_breaks == 0 ? "" : "s", grouped(r.num_traced_nodes), r.num_breaks,
                   r.graph_hash.substr(0, 12)),
       r.trace_ns);
  if (r.verify_ns > 0) {
    line("verify", fmt::format("{} nodes valid", grouped(r.num_traced_nodes)), r.verify_ns);
  }
  print(out, r.pipeline);
  if (!r.is_compiled) return;
  line("passes",
       fmt::format("{} passes, {} -> {} nodes", r.num_passes, grouped(r.num_traced_nodes),
                   grouped(r.num_nodes)),
       r.passes_ns + r.lower_ns);
  line("codegen",
       fmt::format("{} kernels ({} fused), {:.1f} % of nodes fused, {} from cache", r.num_kernels,
                   r.num_fused_kernels, 100 * r.fused_share(), r.num_cached_kernels),
       r.codegen_ns);
  for (const auto& [reason, count] : r.misses) {
    if (reason == "new kernel") continue;
    fmt::print(out, "          {} kernel{} compiled again: {}\n", count, count == 1 ? "" : "s",
               reason);
  }
  line("traffic",
       fmt::format("{:.1f} MB moved by kernels, least {:.1f} MB, ratio {:.3f}; {} copies",
                   mb(r.bytes_moved), mb(r.bytes_least),
                   r.bytes_least == 0
                       ? 1.0
                       : static_cast<double>(r.bytes_moved) / static_cast<double>(r.bytes_least),
                   r.num_copies),
       -1);
  line("memory",
       fmt::format("peak {:.1f} MB, bound {:.1f} MB, ratio {:.3f}", mb(r.peak_bytes),
                   mb(r.bound_bytes),
                   static_cast<double>(r.peak_bytes) / static_cast<double>(r.bound_bytes)),
       -1);
  if (r.recomputation.num_kernels > 0) {
    line("again",
         fmt::format("{} nodes in {} launches, {:.1f} MFLOP more, {:.1f} MB fewer alive",
                     r.recomputation.num_nodes, r.recomputation.num_kernels,
                     r.recomputation.flops / 1e6, mb(r.recomputation.freed_bytes)),
         -1);
  }
  const std::vector<std::string> exchange = exchange_lines(r);
  for (size_t i = 0; i < exchange.size(); ++i) line(i == 0 ? "comm" : "", exchange[i], -1);
}

RunReport make_run_report(const session::Build& build, std::span<const runtime::StepTime> times,
                          std::span<const int64_t> step_ns, double copy_bytes_per_s) {
  RunReport report;
  report.num_steps = static_cast<int64_t>(step_ns.size());
  report.copy_bytes_per_s = copy_bytes_per_s;
  if (step_ns.empty()) return report;
  const auto steps = static_cast<double>(step_ns.size());
  report.step_ms = ms(std::accumulate(step_ns.begin(), step_ns.end(), int64_t{0})) / steps;
  report.p50_ms = percentile_ms(step_ns, 0.50);
  report.p99_ms = percentile_ms(step_ns, 0.99);
  std::map<std::string, WorkRow> rows;
  const auto& program_steps = build.compilation.program.steps;
  for (size_t i = 0; i < program_steps.size() && i < times.size(); ++i) {
    const ir::Step& step = program_steps[i];
    if (step.lane != ir::Lane::kCompute) continue;  // see exchange_report.h
    if (std::holds_alternative<ir::WaitStep>(step.work)) {
      report.exposed_ms += ms(times[i].total_ns) / steps;
      continue;
    }
    bool is_library = false;
    const std::string name = work_name(step, &is_library);
    WorkRow& row = rows[name];
    row.name = name;
    row.is_library = is_library;
    ++row.num_calls;
    const double runs = static_cast<double>(std::max<int64_t>(1, times[i].num_runs));
    const double time = ms(times[i].total_ns) / runs;
    row.ms += time;
    row.bytes_moved += step.bytes_moved;
    row.bytes_least += step.bytes_least;
    row.flops += step.flops;
    (is_library ? report.library_ms : report.generated_ms) += time;
  }
  report.idle_ms =
      std::max(0.0, report.step_ms - report.library_ms - report.generated_ms - report.exposed_ms);
  for (auto& [unused, row] : rows) report.rows.push_back(std::move(row));
  std::sort(report.rows.begin(), report.rows.end(),
            [](const WorkRow& a, const WorkRow& b) { return a.ms > b.ms; });
  return report;
}

void print(std::FILE* out, const RunReport& r) {
  if (r.num_steps == 0) return;
  fmt::print(out,
             "\nstep {:.2f} ms over {} steps (p50 {:.2f}, p99 {:.2f}): library {:.2f}, generated "
             "{:.2f}, exposed communication {:.2f}, idle {:.2f}; copy bandwidth {:.1f} GB/s\n",
             r.step_ms, grouped(r.num_steps), r.p50_ms, r.p99_ms, r.library_ms, r.generated_ms,
             r.exposed_ms, r.idle_ms, r.copy_bytes_per_s / 1e9);
  fmt::print(out, "{:>9} {:>6} {:>9} {:>9} {:>6} {:>8}  {}\n", "ms", "calls", "MB", "least MB",
             "copy", "GFLOP/s", "work");
  for (size_t i = 0; i < r.rows.size() && i < kMaxRows; ++i) {
    const WorkRow& row = r.rows[i];
    const double seconds = row.ms / 1e3;
    const double share =
        seconds <= 0 ? 0
                     : 100 * static_cast<double>(row.bytes_moved) / seconds / r.copy_bytes_per_s;
    fmt::print(out, "{:>9.3f} {:>6} {:>9.2f} {:>9.2f} {:>6} {:>8.1f}  {:.70}\n", row.ms,
               row.num_calls, mb(row.bytes_moved), mb(row.bytes_least),
               row.is_library ? "-" : fmt::format("{:.0f} %", share),
               seconds <= 0 ? 0 : row.flops / seconds / 1e9, row.name);
  }
  if (r.rows.size() > kMaxRows) fmt::print(out, "  and {} more\n", r.rows.size() - kMaxRows);
}

}  // namespace monograph::train
