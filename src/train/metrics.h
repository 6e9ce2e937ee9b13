#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/event.h"

namespace monograph::train {

// Numbers of a run in Prometheus' text format, in a file that a collector reads (as node_exporter's
// textfile collector does). They are counted from the run's events, and the file is written whole,
// at most every `kEvery`, and at the end.
class Metrics {
 public:
  static constexpr std::chrono::seconds kEvery{2};

  // `peak_flops`: what this rank's device can do in a second, for the metric mfu; 0: unknown, and
  // the metric is left out. UserError when the file cannot be written.
  Metrics(std::string path, int64_t rank, double peak_flops = 0);
  // Counts what this log is given from now on; must outlive it.
  void watch(EventLog& events);
  // UserError when the file cannot be written (full disk).
  void write();
  std::string text() const;

 private:
  void count(std::string_view event, std::span<const EventField> fields);
  void count_step(std::span<const EventField> fields);
  double step_quantile(double share) const;

  std::string path_;
  int64_t rank_;
  double peak_flops_;
  double step_flops_ = 0;                 // of a training step
  std::map<std::string, double> values_;  // by metric, counters and gauges
  std::vector<double> step_s_;            // of the last steps, a ring
  size_t next_step_ = 0;
  double steps_s_ = 0;
  std::chrono::steady_clock::time_point written_ = {};
};

}  // namespace monograph::train
