#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "verify/explain/explanation.h"

namespace monograph::verify {
namespace {

constexpr int kChartWidth = 72;
constexpr size_t kMostOps = 46;

std::string shortened(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  const size_t comma = text.rfind(',', width - 3);
  return text.substr(0, comma == std::string::npos ? width - 3 : comma + 1) + "...";
}

double mb(int64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}
double ms(int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

// Switches of one kind that stand alike are one row: "training mode (65)", "true: 'drop',
// 'h.0.attn.drop', ...".
std::vector<std::pair<std::string, std::string>> guard_rows(const Explanation& e) {
  constexpr size_t kMostNames = 3;
  std::vector<std::pair<std::string, std::string>> rows;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> switches;
  for (const auto& [subject, condition] : e.guards) {
    const size_t open = subject.find('\''), close = subject.rfind('\'');
    if (open == subject.npos || close == open) {
      rows.emplace_back(subject, condition);
      continue;
    }
    const bool is_frozen = subject.ends_with(" is frozen");
    const std::string value = condition.substr(0, condition.find(' '));
    switches[{is_frozen ? "frozen" : subject.substr(0, subject.find(" of '")), value}].push_back(
        subject.substr(open, close + 1 - open));
  }
  for (const auto& [kind, names] : switches) {
    std::string all;
    for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
      all += (i == 0 ? "" : ", ") + names[i];
    }
    if (names.size() > kMostNames) all += ", ...: --json lists them";
    rows.emplace_back(fmt::format("{} ({})", kind.first, names.size()),
                      fmt::format("{}: {}", kind.second, all));
  }
  return rows;
}

std::string guards_text(const Explanation& e) {
  std::string text = "guards: this code serves calls with\n";
  const auto rows = guard_rows(e);
  size_t width = 0;
  for (const auto& [subject, condition] : rows) width = std::max(width, subject.size());
  for (const auto& [subject, condition] : rows) {
    text += fmt::format("  {:<{}}  {}\n", subject, width, condition);
  }
  text += fmt::format("\ngraph breaks: {}\n", e.breaks.size());
  for (const trace::HostRead& read : e.breaks) {
    text += fmt::format("  {}:{} {}\n    {}\n    {}\n", read.place.file, read.place.line,
                        read.place.scope, read.reason(), read.advice());
  }
  return text;
}

std::string kernels_text(const Explanation& e) {
  std::string text = fmt::format("\n{:<7} {:>5} {:>6} {:>10} {:>9}  {:<10} {}\n", "kernel", "calls",
                                 "nodes", "MB a step", "compile", "phase", "ops");
  for (const KernelRow& row : e.kernels) {
    const std::string time =
        row.compile_ns == 0 ? "-" : fmt::format("{:.0f} ms", ms(row.compile_ns));
    text += fmt::format("{:<7} {:>5} {:>6} {:>10.2f} {:>9}  {:<10} {}\n", row.id, row.num_calls,
                        row.num_nodes, mb(row.bytes_moved), time, row.phase,
                        shortened(row.ops, kMostOps));
  }
  return text;
}

std::string fusion_text(const Explanation& e) {
  int unfused = 0;
  for (const UnfusedRow& row : e.unfused) unfused += row.num_edges;
  std::string text = fmt::format(
      "\nfusion: {} of {} kernel nodes ({:.1f} %) share a kernel with others; {} edges are inside "
      "kernels, {} between two\n",
      e.num_fused_nodes, e.num_kernel_nodes, 100 * e.fused_share(), e.num_fused_edges, unfused);
  for (const UnfusedRow& row : e.unfused) {
    text += fmt::format("  {:>5}  {}\n         first: {}\n", row.num_edges, row.cause, row.example);
  }
  text += fmt::format("\nfallbacks: {}\n", e.fallbacks.size());
  for (const FallbackRow& row : e.fallbacks) {
    text += fmt::format("  {:>5}  {}: {}\n", row.num_calls, row.what, row.reason);
  }
  text += fmt::format("\ncollectives: {}\n", e.collectives.size());
  for (const CollectiveRow& row : e.collectives) {
    text += fmt::format("  step {:>4}  {:<48} axis {}, {} tensor{}, {:.2f} MB\n", row.step,
                        shortened(row.name, 48), row.axis, row.num_tensors,
                        row.num_tensors == 1 ? "" : "s", mb(row.num_bytes));
  }
  return text;
}

// One column for some steps, as high as the most memory that they need.
std::string memory_text(const Explanation& e) {
  static constexpr std::array<const char*, 9> kBars = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const size_t num_steps = e.scratch_bytes.size();
  if (num_steps == 0) return "";
  const auto peak = std::max_element(e.scratch_bytes.begin(), e.scratch_bytes.end());
  const size_t at_peak = static_cast<size_t>(peak - e.scratch_bytes.begin());
  std::string bars, phases;
  const size_t columns = std::min<size_t>(kChartWidth, num_steps);
  for (size_t c = 0; c < columns; ++c) {
    const size_t begin = c * num_steps / columns, end = (c + 1) * num_steps / columns;
    const int64_t most = *std::max_element(e.scratch_bytes.begin() + static_cast<int64_t>(begin),
                                           e.scratch_bytes.begin() + static_cast<int64_t>(end));
    const double share = *peak == 0 ? 0 : static_cast<double>(most) / static_cast<double>(*peak);
    bars += kBars[static_cast<size_t>(share * 8 + 0.5)];
    phases += e.step_phases[end - 1][0];
  }
  return fmt::format(
      "\nmemory: {:.1f} MB are always there; scratch beside them, in the order of the {} steps, at "
      "most {:.1f} MB\n  {}\n  {}\n  f forward, b backward, o optimizer, c communication; the peak "
      "is in step {}: {}\n",
      mb(e.persistent_bytes), num_steps, mb(*peak), bars, phases, at_peak,
      shortened(e.step_names[at_peak], kMostOps));
}

std::string times_text(const Explanation& e) {
  std::string text = "\ncompile time\n";
  const auto row = [&](const std::string& name, int64_t ns, const std::string& note) {
    text += fmt::format("  {:<24} {:>8.1f} ms  {}\n", name, ms(ns), note);
  };
  row("trace", e.trace_ns, "forward, backward and optimizer as one graph");
  row("verify", e.verify_ns, "");
  for (const compiler::PassRecord& pass : e.passes) {
    const std::string nodes = fmt::format("{} -> {} nodes", pass.nodes_before, pass.nodes_after);
    row(pass.name, pass.duration_ns, pass.changed ? nodes : "no change");
  }
  row("lower", e.lower_ns, "layout, Loops, memory plan");
  row("kernels", e.codegen_ns,
      e.codegen_ns == 0
          ? "not compiled here"
          : fmt::format("{} of {} from the cache", e.num_from_cache, e.kernels.size()));
  return text;
}

}  // namespace

std::string to_text(const Explanation& e) {
  return guards_text(e) + kernels_text(e) + fusion_text(e) + memory_text(e) + times_text(e);
}

}  // namespace monograph::verify
