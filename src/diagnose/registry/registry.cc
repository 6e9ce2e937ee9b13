#include "diagnose/compile/job.h"
#include "diagnose/compile/torch_logs.h"
#include "diagnose/compile/torch_trace.h"
#include "diagnose/events/event_log.h"
#include "diagnose/hang/hang_report.h"
#include "diagnose/nccl/inspector.h"
#include "diagnose/nccl/nccl_report.h"
#include "diagnose/reader.h"
#include "diagnose/text_log.h"
#include "diagnose/timeline/trace_report.h"

// What this room reads and concludes, one line each. A reader that is sure of its kind stands
// before one that takes what is left.
namespace monograph::diagnose {

std::span<const Reader> readers() {
  static const Reader kReaders[] = {
      {"Kineto trace", accepts_kineto, read_kineto_file},
      {"Nsight Systems export", accepts_nsight, read_nsight},
      {"flight recorder dump", accepts_flight_recorder, read_flight_recorder_file},
      {"NCCL RAS report", accepts_ras, read_ras_file},
      {"NCCL inspector log", accepts_inspector, read_inspector},
      {"TORCH_TRACE log", accepts_torch_trace, read_torch_trace},
      {"Monograph event log", accepts_event_log, read_event_log},
      {"text log", looks_like_text, read_text_log},  // last: takes any text
  };
  return kReaders;
}

std::span<const LineReaderEntry> line_readers() {
  static const std::vector<LineReaderEntry> kLineReaders = {
      {"hangs", make_hang_reader},
      {"NCCL RAS text", make_ras_reader},
      {"compiler messages", make_torch_logs_reader},
      {"NCCL", make_nccl_reader},
  };
  return kLineReaders;
}

std::span<const Conclusion> conclusions() {
  static const std::vector<Conclusion> kConclusions = {
      {"hangs", conclude_hangs},   {"compiler", conclude_compile},
      {"events", conclude_events}, {"NCCL", conclude_nccl},
      {"traces", conclude_traces}, {"NCCL inspector", conclude_inspector},
  };
  return kConclusions;
}

}  // namespace monograph::diagnose
