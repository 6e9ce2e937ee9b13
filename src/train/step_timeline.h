#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/event.h"
#include "frontend/session/executable.h"

namespace monograph::train {

// What one rank did and when, on the host, in the trace-event format that Perfetto opens: training
// steps, the kernels, library calls and collectives of some of them, compilations, and marks where
// a graph ran without its compiled kernels (rank, graph hash, milliseconds).
class StepTimeline {
 public:
  using Clock = std::chrono::steady_clock;

  // Draws the compilations and marks that the log is given from now on; must outlive it.
  StepTimeline(std::string path, int64_t rank, EventLog& events);
  // Training step `step` of so many, from 0, which has just ended; with the parts of a few steps
  // after the first ones.
  void add_step(int64_t step, int64_t num_steps, Clock::time_point begin,
                const session::Executable& executable);
  std::string json() const;
  // UserError when the file cannot be written.
  void write() const;

 private:
  enum class Track : uint8_t { kSteps, kCompute, kCommunication, kCompile };
  void add_parts(const ir::Program& program, std::span<const runtime::StepTime> times);
  void note(std::string_view event, std::span<const EventField> fields);
  void add_span(Track track, std::string_view name, Clock::time_point begin, Clock::time_point end,
                const std::string& arguments = "");
  void add_mark(std::string_view name, const std::string& arguments);
  double microseconds(Clock::time_point at) const;

  std::string path_;
  int64_t rank_;
  Clock::time_point start_ = Clock::now();
  std::vector<std::string> events_;
};

}  // namespace monograph::train
