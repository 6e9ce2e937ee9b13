#include "train/exchange_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace monograph::train {
namespace {

constexpr size_t kMaxRows = 16;

// Two lanes, as the executor runs them.
void predict(const ir::Program& program, std::span<const double> compute_ms,
             const std::vector<int>& row_of_step, ExchangeReport& report) {
  double computed = 0, sent = 0;  // when each lane is free
  std::vector<double> end(program.steps.size(), 0);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const ir::Step& step = program.steps[i];
    if (step.lane == ir::Lane::kCommunication) {
      sent = end[i] = std::max(sent, computed) + report.rows[row_of_step[i]].predicted_ms;
    } else if (std::holds_alternative<ir::WaitStep>(step.work)) {
      const double exposed = std::max(0.0, end[step.waits[0]] - computed);
      report.rows[row_of_step[step.waits[0]]].predicted_exposed_ms += exposed;
      report.predicted_exposed_ms += exposed;
      computed += exposed;
    } else {
      computed += compute_ms[i];
    }
  }
}

}  // namespace

double ExchangeReport::overlap() const {
  const double longer = std::max(communication_ms, computation_ms);
  return longer <= 0 ? 0 : std::max(0.0, communication_ms - exposed_ms) / longer;
}

ExchangeReport make_exchange_report(const ir::Program& program,
                                    std::span<const runtime::StepTime> times,
                                    const ir::LinkModel& link) {
  ExchangeReport report;
  report.link = link;
  std::vector<int> row_of_step(program.steps.size(), -1);
  std::vector<double> compute_ms(program.steps.size(), 0);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const ir::Step& step = program.steps[i];
    const bool is_measured = i < times.size() && times[i].num_runs > 0;
    const double ms = is_measured ? static_cast<double>(times[i].total_ns) / 1e6 /
                                        static_cast<double>(times[i].num_runs)
                                  : 0;
    if (const auto* collective = std::get_if<ir::CollectiveStep>(&step.work)) {
      row_of_step[i] = static_cast<int>(report.rows.size());
      report.num_ranks = std::max(report.num_ranks, static_cast<int>(collective->size));
      report.bytes += collective->num_bytes();
      report.communication_ms += ms;
      report.rows.push_back({.name = step.name,
                             .num_tensors = collective->num_tensors,
                             .bytes = collective->num_bytes(),
                             .predicted_ms = 1e3 * link.seconds(collective->num_bytes()),
                             .measured_ms = ms});
    } else if (std::holds_alternative<ir::WaitStep>(step.work)) {
      report.rows[row_of_step[step.waits[0]]].measured_exposed_ms += ms;
      report.exposed_ms += ms;
    } else {
      compute_ms[i] = ms;
      report.computation_ms += ms;
    }
  }
  predict(program, compute_ms, row_of_step, report);
  return report;
}

void print(std::FILE* out, const ExchangeReport& r) {
  if (r.rows.empty()) return;
  fmt::print(out,
             "\nexchange over {} ranks by {}: {:.2f} ms a step, {:.2f} exposed (predicted {:.2f}), "
             "overlap {:.2f}; link {:.0f} us + {:.2f} GB/s\n",
             r.num_ranks, r.transport, r.communication_ms, r.exposed_ms, r.predicted_exposed_ms,
             r.overlap(), r.link.latency_s * 1e6, r.link.bytes_per_s / 1e9);
  fmt::print(out, "{:>9} {:>9} {:>9} {:>9} {:>9} {:>8}  {}\n", "ms", "predicted", "exposed",
             "predicted", "MB", "tensors", "collective");
  for (size_t i = 0; i < r.rows.size() && i < kMaxRows; ++i) {
    const ExchangeRow& row = r.rows[i];
    fmt::print(out, "{:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>8}  {:.60}\n", row.measured_ms,
               row.predicted_ms, row.measured_exposed_ms, row.predicted_exposed_ms,
               static_cast<double>(row.bytes) / 1e6, row.num_tensors, row.name);
  }
  if (r.rows.size() > kMaxRows) fmt::print(out, "  and {} more\n", r.rows.size() - kMaxRows);
}

}  // namespace monograph::train
