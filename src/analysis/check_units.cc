#include "analysis/check_units.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "ops/registry.h"

namespace monograph::analysis {
namespace {

// Collective, unit, window.
using Exchange = std::tuple<std::string, std::string, int64_t>;

std::map<Exchange, int> count_exchanges(const ir::Graph& graph) {
  std::map<Exchange, int> counts;
  for (const auto& node : graph.nodes()) {
    const std::string unit = node->attribute_or("unit", std::string());
    if (unit.empty() || !ops::has_trait(*node, ops::kCollective)) continue;
    const std::string op = node->op().substr(0, node->op().find("_start"));
    if (op == "all_reduce") continue;  // of parts, over other axes: one for each
    ++counts[{op, unit, node->attribute_or("window", int64_t{0})}];
  }
  return counts;
}

std::string text_of(const Exchange& exchange) {
  const auto& [op, unit, window] = exchange;
  return op == "all_gather" ? fmt::format("unit '{}' is gathered in window {}", unit, window)
                            : fmt::format("the gradients of unit '{}' are scattered", unit);
}

}  // namespace

std::vector<ir::Violation> check_units(const ir::Graph& traced, const ir::Graph& compiled) {
  std::vector<ir::Violation> violations;
  const std::map<Exchange, int> expected = count_exchanges(traced);
  for (const auto& [exchange, count] : expected) {
    if (count == 1) continue;
    const bool is_gather = std::get<0>(exchange) == "all_gather";
    violations.push_back({is_gather ? "V5.1" : "V5.2", nullptr,
                          fmt::format("{} {} times: once is enough", text_of(exchange), count)});
  }
  std::map<Exchange, int> made = count_exchanges(compiled);
  for (const auto& [exchange, count] : expected) made[exchange] -= count;
  for (const auto& [exchange, excess] : made) {
    if (excess == 0) continue;
    violations.push_back(
        {"V5.3", nullptr,
         fmt::format("{} {} times {} than traced: a pass has {} it", text_of(exchange),
                     std::abs(excess), excess > 0 ? "more" : "less",
                     excess > 0 ? "copied" : "lost")});
  }
  return violations;
}

}  // namespace monograph::analysis
