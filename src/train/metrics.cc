#include "train/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/atomic_file.h"

namespace monograph::train {
namespace {

constexpr const char* kUtilization = "mfu";
constexpr std::string_view kTrainingStep = "train_step#";
constexpr size_t kWindow = 1024;  // steps that quantiles are taken over

// All of them are written from the beginning on, so that a rate has a first value.
constexpr std::array<Metric, 20> kMetrics = {{
    {"compilations_total", "counter", "Graphs compiled."},
    {"compile_seconds_total", "counter", "Time spent tracing and compiling."},
    {"kernels_total", "counter", "Kernels that the compiled graphs have."},
    {"fused_kernels_total", "counter", "Kernels of more than one graph node."},
    {"fused_share", "gauge", "Share of kernel nodes that share a kernel, of the last graph."},
    {"cache_hits_total", "counter", "Kernels that came from the cache."},
    {"cache_misses_total", "counter", "Kernels that had to be compiled."},
    {"recompiles_total", "counter", "Compilations for another signature or path (guard failures)."},
    {"graph_breaks_total", "counter", "Places where a compiled function reads on the host."},
    {"recompile_limits_total", "counter", "Functions that reached their recompile limit."},
    {"compile_timeouts_total", "counter", "Graphs that began to run before they were compiled."},
    {"fallbacks_total", "counter", "Graphs that run uncompiled because the compiler failed."},
    {"swap_ins_total", "counter", "Graphs whose kernels came in later."},
    {"steps_total", "counter", "Training steps."},
    {"loss", "gauge", "Loss of the last step."},
    {"validation_loss", "gauge", "Loss of the last validation."},
    {"tokens_per_second", "gauge", "Of the last step, over all ranks."},
    {"exposed_communication_seconds", "gauge",
     "Of the last step, that the computation stood still for exchanges."},
    {"product_flops_per_second", "gauge", "Of the last step, of this rank's products."},
    {kUtilization, "gauge", "Share of the device's peak that products of the last step took."},
}};

bool is_of_training(std::span<const EventField> fields) {
  for (const EventField& field : fields) {
    const auto* text = std::get_if<std::string_view>(&field.value);
    if (field.name == "frame_key" && text != nullptr) return text->starts_with(kTrainingStep);
  }
  return false;
}

double number(std::span<const EventField> fields, std::string_view name) {
  for (const EventField& field : fields) {
    if (field.name != name) continue;
    if (const auto* whole = std::get_if<int64_t>(&field.value)) return static_cast<double>(*whole);
    if (const auto* real = std::get_if<double>(&field.value)) return *real;
  }
  return 0;
}

int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string value_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{:.12g}", value);
}

}  // namespace

Metrics::Metrics(std::string path, int64_t rank, double peak_flops)
    : path_(std::move(path)), rank_(rank), peak_flops_(peak_flops), start_ns_(now_ns()) {
  for (const Metric& metric : kMetrics) values_[metric.name] = 0;
  write();
}

void Metrics::watch(EventLog& events) {
  events.observe([this](std::string_view event, std::span<const EventField> fields) {
    count(event, fields);
    if (std::chrono::steady_clock::now() - written_ > kEvery) write();
  });
}

void Metrics::count(std::string_view event, std::span<const EventField> fields) {
  if (event == "step") return count_step(fields);
  if (event == "compile") {
    const double kernels = number(fields, "kernels"), hits = number(fields, "kernels_from_cache");
    ++values_["compilations_total"];
    values_["compile_seconds_total"] += number(fields, "ns") / 1e9;
    values_["kernels_total"] += kernels;
    values_["fused_kernels_total"] += number(fields, "fused_kernels");
    values_["fused_share"] = number(fields, "fused_share");
    values_["cache_hits_total"] += hits;
    values_["cache_misses_total"] += kernels - hits;
    if (is_of_training(fields)) step_flops_ = number(fields, "product_flops");
  } else if (event == "validation") {
    values_["validation_loss"] = number(fields, "loss");
  } else {
    const auto counter = values_.find(fmt::format("{}s_total", event));
    if (counter != values_.end()) ++counter->second;
  }
}

void Metrics::count_step(std::span<const EventField> fields) {
  const double seconds = number(fields, "ns") / 1e9;
  ++values_["steps_total"];
  values_["loss"] = number(fields, "loss");
  values_["tokens_per_second"] = number(fields, "tokens_per_s");
  values_["exposed_communication_seconds"] = number(fields, "exposed_ns") / 1e9;
  if (seconds > 0) values_["product_flops_per_second"] = step_flops_ / seconds;
  if (peak_flops_ > 0) values_[kUtilization] = values_["product_flops_per_second"] / peak_flops_;
  steps_s_ += seconds;
  if (step_s_.size() < kWindow) step_s_.push_back(seconds);
  step_s_[next_step_++ % kWindow] = seconds;
}

double Metrics::step_quantile(double share) const {
  if (step_s_.empty()) return 0;
  std::vector<double> sorted = step_s_;
  const auto at = static_cast<size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5);
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<int64_t>(at), sorted.end());
  return sorted[at];
}

std::string Metrics::text() const {
  std::string text;
  for (const Metric& metric : shown()) {
    text += fmt::format(
        "# HELP monograph_{0} {1}\n# TYPE monograph_{0} {2}\nmonograph_{0}{{rank="
        "\"{3}\"}} {4}\n",
        metric.name, metric.help, metric.type, rank_, value_text(values_.at(metric.name)));
  }
  text += "# HELP monograph_step_seconds Time of a training step.\n";
  text += "# TYPE monograph_step_seconds summary\n";
  for (const double share : {0.5, 0.99}) {
    text += fmt::format("monograph_step_seconds{{rank=\"{}\",quantile=\"{}\"}} {}\n", rank_, share,
                        value_text(step_quantile(share)));
  }
  text += fmt::format(
      "monograph_step_seconds_sum{{rank=\"{0}\"}} {1}\nmonograph_step_seconds_count"
      "{{rank=\"{0}\"}} {2}\n",
      rank_, value_text(steps_s_), value_text(values_.at("steps_total")));
  return text;
}

std::vector<Metric> Metrics::shown() const {
  std::vector<Metric> metrics;
  for (const Metric& metric : kMetrics) {
    if (std::string_view(metric.name) != kUtilization || peak_flops_ > 0) metrics.push_back(metric);
  }
  return metrics;
}

void Metrics::write() {
  if (!path_.empty()) {
    AtomicFile file("metrics", path_);
    const std::string content = text();
    file.write(std::as_bytes(std::span(content)));
    file.commit();
  }
  if (otlp_) otlp_->send(otlp_request(start_ns_, now_ns()));
  written_ = std::chrono::steady_clock::now();
}

}  // namespace monograph::train
