#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace monograph::analysis {

// One exchange with other stages, as its lane has it.
struct StageCall {
  enum class Kind : uint8_t { kSend, kRecv, kAll };
  Kind kind = Kind::kAll;
  int peer = -1;     // the other stage of a send or recv
  std::string what;  // "4096 f32 'forward 0, 0 to 1'": equal on both sides

  std::string str() const;  // "send to 1: 4096 f32 'forward 0, 0 to 1'"
  bool operator==(const StageCall&) const = default;
};
// One line each.
std::string to_lines(const std::vector<StageCall>& calls);
std::vector<StageCall> parse_stage_calls(const std::string& lines);

// V5.5: each send meets its recv and collectives of all stages meet, in order, even if each call
// waits for its other side. `calls`: of each stage, in the order of its lane. Nothing, or a message
// that says where each stage that goes no further stands.
std::optional<std::string> check_stages(const std::vector<std::vector<StageCall>>& calls);

}  // namespace monograph::analysis
