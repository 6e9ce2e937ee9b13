#include "verify/explain/step_nodes.h"

#include <algorithm>

#include "base/error.h"
#include "ops/registry.h"

namespace monograph::verify {

bool is_step(const ir::Node& node) {
  if (ops::has_trait(node, ops::kStart) || ops::has_trait(node, ops::kDone)) return true;
  return !node.is_placeholder() && !ops::has_trait(node, ops::kViewLike) &&
         !ops::has_trait(node, ops::kGather);
}

std::vector<StepNode> step_nodes(const compiler::Compilation& compilation) {
  std::vector<StepNode> steps;
  std::unordered_map<const ir::Node*, std::vector<int>> makers;  // of what each node gives
  for (const auto& node : compilation.graph->nodes()) {
    std::vector<int> read;
    for (ir::Value operand : node->operands()) {
      const std::vector<int>& of = makers[operand.node];
      read.insert(read.end(), of.begin(), of.end());
    }
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    if (!is_step(*node)) {
      makers[node.get()] = std::move(read);
      continue;
    }
    makers[node.get()] = {static_cast<int>(steps.size())};
    steps.push_back({node.get(), std::move(read)});
  }
  check(steps.size() == compilation.program.steps.size(), "{} nodes became {} steps", steps.size(),
        compilation.program.steps.size());
  return steps;
}

std::string work_of(const ir::Step& step, const ir::Node& node) {
  if (const auto* kernel = std::get_if<ir::KernelStep>(&step.work)) {
    return fmt::format("kernel {}", kernel->kernel);
  }
  if (const auto* gemm = std::get_if<ir::GemmStep>(&step.work)) {
    int64_t batch = 1;
    for (const int64_t extent : gemm->batch) batch *= extent;
    return fmt::format("{} {} {}x{}x{}{}", node.op(), ir::dtype_name(gemm->dtype), gemm->m, gemm->n,
                       gemm->k, batch == 1 ? "" : fmt::format(" x{}", batch));
  }
  if (std::holds_alternative<ir::AttentionStep>(step.work)) {
    return std::get<ir::AttentionStep>(step.work).is_backward ? "attention backward" : "attention";
  }
  if (const auto* collective = std::get_if<ir::CollectiveStep>(&step.work)) {
    return fmt::format("{} {:.1f} MB", kind_name(collective->kind),
                       static_cast<double>(collective->num_bytes()) / 1e6);
  }
  return std::holds_alternative<ir::WaitStep>(step.work) ? "wait" : node.op();
}

}  // namespace monograph::verify
