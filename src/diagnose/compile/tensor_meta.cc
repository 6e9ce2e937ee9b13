#include "diagnose/compile/tensor_meta.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "diagnose/compile/rank_comparison.h"
#include "diagnose/torch_prefix.h"

namespace monograph::diagnose {
namespace {

std::string list_of(JsonFields& fields, std::string_view key) {
  std::string text;
  fields.for_each(key, [&] {
    const std::string symbol = fields.string("");
    text += text.empty() ? "" : ", ";
    text += symbol.empty() ? std::to_string(fields.integer("", -1)) : symbol;
  });
  return "[" + text + "]";
}

// The same graph of each rank: by function and how often it was compiled before.
std::map<std::pair<std::string, int>, std::map<int, const TensorMeta*>> align(
    const CompileJob& job) {
  const FunctionNames names(job);
  std::map<std::pair<std::string, int>, std::map<int, const TensorMeta*>> aligned;
  std::map<std::pair<int, std::string>, int> seen;
  for (const Ranked<TensorMeta>& record : job.prefer_structured(&CompileFacts::tensor_metas)) {
    if (record.rank < 0) continue;
    const CompiledFunction function = names.of(record);
    const std::string key =
        fmt::format("{}|{}|{}", function.name, base_name(function.file), function.line);
    const int nth = seen[{record.rank, key}]++;
    aligned[{key, nth}][record.rank] = record.value;
  }
  return aligned;
}

std::vector<std::string> outputs_of(const TensorMeta& meta) {
  std::vector<std::string> outputs;
  for (const KernelMeta& kernel : meta.kernels) outputs.push_back(kernel.outputs);
  return outputs;
}

void find_other_shapes(const std::map<int, const TensorMeta*>& by_rank, Report& report) {
  std::map<std::vector<std::string>, std::set<int>> groups;
  for (const auto& [rank, meta] : by_rank) groups[outputs_of(*meta)].insert(rank);
  if (groups.size() < 2) return;
  const auto& usual =
      std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
        return a.second.size() < b.second.size();
      })->second;
  for (const auto& [outputs, ranks] : groups) {
    if (&ranks == &usual) continue;
    const TensorMeta& mine = *by_rank.at(*ranks.begin());
    const TensorMeta& theirs = *by_rank.at(*usual.begin());
    std::size_t at = 0;
    while (at < mine.kernels.size() && at < theirs.kernels.size() &&
           mine.kernels[at].outputs == theirs.kernels[at].outputs) {
      ++at;
    }
    const auto shown = [&](const TensorMeta& meta) {
      if (at >= meta.kernels.size()) return std::string("nothing");
      return fmt::format("{} -> {}", meta.kernels[at].name, meta.kernels[at].outputs);
    };
    Finding finding;
    finding.code = "tensor_meta_mismatch";
    finding.severity = Severity::kError;
    finding.weight = 350;
    finding.where.ranks = known_ranks(ranks);
    finding.where.frame = frame_label(mine.function.name, mine.compile_id);
    set_place(finding, mine.function);
    finding.what = fmt::format("{} computes tensors of other shape or dtype than {} in graph [{}]",
                               describe_ranks(finding.where.ranks),
                               describe_ranks(known_ranks(usual)), mine.compile_id);
    finding.why =
        fmt::format("first at kernel {}: `{}` against `{}`", at + 1, shown(mine), shown(theirs));
    finding.advice =
        "collectives need equal sizes and dtypes on all ranks: compare the inputs "
        "(batch, padding, autocast) of these ranks";
    finding.evidence = {describe_ranks(finding.where.ranks) + ": " + shown(mine),
                        describe_ranks(known_ranks(usual)) + ": " + shown(theirs)};
    report.findings.push_back(std::move(finding));
  }
}

// Equal kernels are estimated from the device's data sheet and clocks: a rank that differs has
// another device.
void find_slow_devices(const std::map<int, const TensorMeta*>& by_rank, Report& report) {
  constexpr double kRatio = 1.25, kNanoseconds = 1e5;
  double least = 0, most = 0;
  int slow = -1, fast = -1;
  for (const auto& [rank, meta] : by_rank) {
    double sum = 0;
    for (const KernelMeta& kernel : meta->kernels) sum += kernel.estimated_ns;
    if (slow < 0 || sum > most) most = sum, slow = rank;
    if (fast < 0 || sum < least) least = sum, fast = rank;
  }
  if (least <= 0 || most < kRatio * least || most - least < kNanoseconds) return;
  Finding finding;
  finding.code = "estimated_runtime";
  finding.severity = Severity::kNote;
  finding.weight = most / least;
  finding.where.ranks = {slow};
  const TensorMeta& meta = *by_rank.at(slow);
  finding.where.frame = frame_label(meta.function.name, meta.compile_id);
  finding.what =
      fmt::format("graph [{}] is expected to take {:.2f} ms on rank {}, {:.2f} ms on rank {}",
                  meta.compile_id, most * 1e-6, slow, least * 1e-6, fast);
  finding.why = "Inductor estimates from the device: these ranks have different ones, or clocks";
  finding.advice = "see whether all ranks run on the same kind of device";
  report.findings.push_back(std::move(finding));
}

}  // namespace

TensorMeta parse_tensor_meta(JsonFields& fields) {
  TensorMeta meta;
  fields.for_each("ops", [&] {
    KernelMeta kernel;
    kernel.name = fields.string("name");
    kernel.estimated_ns = fields.number("estimated_runtime_ns", 0);
    fields.for_each("outputs", [&] {
      kernel.outputs += kernel.outputs.empty() ? "" : " ";
      kernel.outputs += fields.string("dtype") + list_of(fields, "shape");
      const std::string stride = list_of(fields, "stride");
      if (stride != "[]") kernel.outputs += stride;
    });
    meta.kernels.push_back(std::move(kernel));
  });
  return meta;
}

void compare_tensor_meta(const CompileJob& job, Report& report) {
  for (const auto& [key, by_rank] : align(job)) {
    if (by_rank.size() < 2) continue;
    find_other_shapes(by_rank, report);
    find_slow_devices(by_rank, report);
  }
}

}  // namespace monograph::diagnose
