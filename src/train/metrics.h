#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/event.h"
#include "train/otlp.h"

namespace monograph::train {

struct Metric {
  const char* name;
  const char* type;  // counter, gauge
  const char* help;
};

// Numbers of a run in Prometheus' text format, in a file that a collector reads (as node_exporter's
// textfile collector does). They are counted from the run's events, and the file is written whole,
// at most every `kEvery`, and at the end.
class Metrics {
 public:
  static constexpr std::chrono::seconds kEvery{2};

  // `path`: empty, no file. `peak_flops`: what this rank's device can do in a second, for the
  // metric mfu; 0: unknown, and the metric is left out. UserError when the file cannot be written.
  Metrics(std::string path, int64_t rank, double peak_flops = 0);
  // Counts what this log is given from now on; must outlive it.
  void watch(EventLog& events);
  // From now on sends the same numbers there as well, each time that the file is written.
  void send_to(OtlpTarget target) { otlp_ = std::move(target); }
  // UserError when the file cannot be written (full disk).
  void write();
  std::string text() const;
  // The same as a request of OTLP in JSON (metrics_otlp.cc); times in nanoseconds since 1970.
  std::string otlp_request(int64_t start_ns, int64_t now_ns) const;

 private:
  void count(std::string_view event, std::span<const EventField> fields);
  void count_step(std::span<const EventField> fields);
  double step_quantile(double share) const;
  std::vector<Metric> shown() const;  // without a peak, nothing is said of its share

  std::string path_;
  int64_t rank_;
  double peak_flops_;
  double step_flops_ = 0;                 // of a training step
  std::map<std::string, double> values_;  // by metric, counters and gauges
  std::vector<double> step_s_;            // of the last steps, a ring
  size_t next_step_ = 0;
  double steps_s_ = 0;
  std::chrono::steady_clock::time_point written_ = {};
  std::optional<OtlpTarget> otlp_;
  const int64_t start_ns_;  // since 1970
};

}  // namespace monograph::train
