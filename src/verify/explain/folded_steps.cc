#include "verify/explain/folded_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "ops/registry.h"
#include "verify/explain/step_nodes.h"

namespace monograph::verify {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

// "h.3.attn" -> "h.*.attn" and 3; the first number only. -1: it has none.
std::pair<std::string, int> without_block(const std::string& scope) {
  std::string result;
  int block = -1;
  for (size_t begin = 0; begin <= scope.size();) {
    const size_t end = std::min(scope.find('.', begin), scope.size());
    std::string part = scope.substr(begin, end - begin);
    if (block < 0 && is_number(part)) {
      block = std::stoi(part);
      part = "*";
    }
    result += (begin == 0 ? "" : ".") + part;
    begin = end + 1;
  }
  return {result, block};
}

FoldedStep::Kind kind_of(const ir::Step& step) {
  if (std::holds_alternative<ir::KernelStep>(step.work)) return FoldedStep::Kind::kKernel;
  const bool is_exchange = std::holds_alternative<ir::CollectiveStep>(step.work) ||
                           std::holds_alternative<ir::WaitStep>(step.work);
  return is_exchange ? FoldedStep::Kind::kCollective : FoldedStep::Kind::kLibrary;
}

FoldedStep describe(const ir::Step& step, const ir::Node& node) {
  FoldedStep result;
  result.kind = kind_of(step);
  result.work = work_of(step, node);
  if (result.kind == FoldedStep::Kind::kKernel) {
    const size_t scope = step.name.find(": ");
    result.ops = scope == std::string::npos ? step.name : step.name.substr(scope + 2);
  }
  result.phase =
      result.kind == FoldedStep::Kind::kCollective ? "communication" : ir::phase_name(step.phase);
  const ir::Provenance& place = node.provenance();
  if (!place.file.empty()) {
    result.place =
        fmt::format("{}:{}", std::filesystem::path(place.file).filename().string(), place.line);
  }
  return result;
}

// A collective belongs to what it sends.
std::string scope_of(const ir::Node& node) {
  const ir::Node* sent = &node;
  while (ops::has_trait(*sent, ops::kStart) || ops::has_trait(*sent, ops::kDone)) {
    sent = sent->operand(0).node;
  }
  return sent->provenance().scope;
}

}  // namespace

FoldedSteps fold_steps(const compiler::Compilation& compilation) {
  FoldedSteps result;
  std::map<std::string, int> known;                   // by what a step does, and where in its block
  std::map<std::pair<std::string, int>, int> counts;  // of equal steps in one block
  std::vector<int> folded, block_of;
  const std::vector<StepNode> steps = step_nodes(compilation);
  for (size_t i = 0; i < steps.size(); ++i) {
    const ir::Step& step = compilation.program.steps[i];
    const auto [scope, block] = without_block(scope_of(*steps[i].node));
    if (std::holds_alternative<ir::WaitStep>(step.work)) {  // drawn with what it waits for
      folded.push_back(folded[step.waits[0]]);
      block_of.push_back(block);
      result.nodes[folded.back()].steps.push_back(static_cast<int>(i));
      continue;
    }
    FoldedStep each = describe(step, *steps[i].node);
    each.scope = scope;
    std::string key = fmt::format("{} {} {}", each.phase, each.work, scope);
    key += fmt::format(" {}", counts[{key, block}]++);
    if (block < 0) key += " outside";
    const auto [found, is_new] = known.emplace(key, result.nodes.size());
    if (is_new) result.nodes.push_back(std::move(each));
    FoldedStep& node = result.nodes[found->second];
    node.steps.push_back(static_cast<int>(i));
    if (block >= 0) node.blocks.push_back(block);
    folded.push_back(found->second);
    block_of.push_back(block);
  }
  std::set<FoldedEdge> edges;
  for (size_t i = 0; i < steps.size(); ++i) {
    for (int producer : steps[i].producers) {
      const bool across =
          block_of[i] >= 0 && block_of[producer] >= 0 && block_of[i] != block_of[producer];
      if (folded[producer] != folded[i] || across) {
        edges.insert({folded[producer], folded[i], across});
      }
    }
  }
  result.edges.assign(edges.begin(), edges.end());
  for (FoldedStep& node : result.nodes) std::sort(node.blocks.begin(), node.blocks.end());
  return result;
}

std::string ranges_text(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] <= numbers[end] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += numbers[i] == numbers[end] ? fmt::format("{}", numbers[i])
                                       : fmt::format("{} to {}", numbers[i], numbers[end]);
    i = end + 1;
  }
  return text;
}

}  // namespace monograph::verify
