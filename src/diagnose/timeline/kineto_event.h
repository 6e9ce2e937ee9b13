#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "diagnose/timeline/timeline.h"

// One event of a Kineto trace, for itself.
namespace monograph::diagnose {

// Events that a Timeline is made of.
enum class KinetoWork : uint8_t {
  kNone,
  kKernel,
  kCopy,
  kMemset,
  kLaunch,
  kAnnotation,  // ProfilerStep
  kCommParams,  // record_param_comms, the host op of a collective, describes it
};

struct KinetoEvent {
  KinetoWork work = KinetoWork::kNone;
  bool is_damaged = false;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  std::string_view name;  // in the event's text, escapes left in
  Activity activity = Activity::kCompute;
  int64_t correlation = 0;
  int64_t external_id = -1;
  int64_t stream = -1;
  int64_t device = -1;
  int64_t num_bytes = -1;
  bool has_collective = false;  // `collective` is from the event's own arguments
  CollectiveInfo collective;
};

// Reads the text of one element of traceEvents. Text that is no valid JSON (raw control characters,
// N/A) is read as far as it goes.
KinetoEvent parse_kineto_event(std::string_view text);

// Undoes the escapes of a JSON string.
std::string unescape(std::string_view text);

// The integer that the text begins with.
std::optional<int64_t> leading_number(std::string_view text);

// Microseconds with a fraction, "4458676983543.183", as nanoseconds; false if that is no number.
bool parse_microseconds(std::string_view text, int64_t& ns);

}  // namespace monograph::diagnose
