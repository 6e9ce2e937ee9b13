#include <cmath>
#include <nlohmann/json.hpp>

#include "train/metrics.h"

namespace monograph::train {
namespace {

using Json = nlohmann::ordered_json;

// As protocol buffers have it in JSON: 64-bit integers and what is no number are strings.
Json value_of(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

}  // namespace

std::string Metrics::otlp_request(int64_t start_ns, int64_t now_ns) const {
  constexpr int kCumulative = 2;  // AGGREGATION_TEMPORALITY_CUMULATIVE
  const std::string start = std::to_string(start_ns), now = std::to_string(now_ns);
  Json metrics = Json::array();
  for (const Metric& each : shown()) {
    const bool is_counter = std::string_view(each.type) == "counter";
    const Json point = {{"startTimeUnixNano", start},
                        {"timeUnixNano", now},
                        {"asDouble", value_of(values_.at(each.name))}};
    Json metric = {{"name", std::string("monograph_") + each.name}, {"description", each.help}};
    if (is_counter) {
      metric["sum"] = {
          {"dataPoints", {point}}, {"aggregationTemporality", kCumulative}, {"isMonotonic", true}};
    } else {
      metric["gauge"] = {{"dataPoints", {point}}};
    }
    metrics.push_back(std::move(metric));
  }
  Json quantiles = Json::array();
  for (const double share : {0.5, 0.99}) {
    quantiles.push_back({{"quantile", share}, {"value", step_quantile(share)}});
  }
  const Json steps = {{"startTimeUnixNano", start},
                      {"timeUnixNano", now},
                      {"count", std::to_string(static_cast<int64_t>(values_.at("steps_total")))},
                      {"sum", steps_s_},
                      {"quantileValues", quantiles}};
  metrics.push_back({{"name", "monograph_step_seconds"},
                     {"description", "Time of a training step."},
                     {"unit", "s"},
                     {"summary", {{"dataPoints", {steps}}}}});
  const auto attribute = [](const char* key, Json value) {
    return Json{{"key", key}, {"value", std::move(value)}};
  };
  const Json resource = {{"attributes",
                          {attribute("service.name", {{"stringValue", "monograph"}}),
                           attribute("rank", {{"intValue", std::to_string(rank_)}})}}};
  const Json scope = {{"scope", {{"name", "monograph"}}}, {"metrics", std::move(metrics)}};
  return Json{{"resourceMetrics", {{{"resource", resource}, {"scopeMetrics", {scope}}}}}}.dump();
}

}  // namespace monograph::train
