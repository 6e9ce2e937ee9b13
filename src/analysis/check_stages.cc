#include "analysis/check_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace monograph::analysis {
namespace {

using Kind = StageCall::Kind;

constexpr char kLetters[] = {'s', 'r', 'a'};

// The calls of all stages, each stage as far as it comes.
class Lanes {
 public:
  explicit Lanes(const std::vector<std::vector<StageCall>>& calls)
      : calls_(calls), next_(calls.size(), 0) {}

  bool run() {
    while (meet_all() || meet_two()) {
    }
    for (size_t stage = 0; stage < calls_.size(); ++stage) {
      if (at(stage) != nullptr) return false;
    }
    return true;
  }

  std::string where() const {
    std::string text;
    for (size_t stage = 0; stage < calls_.size(); ++stage) {
      text += fmt::format("\n  stage {}: ", stage);
      text += at(stage) == nullptr ? "has no call left"
                                   : fmt::format("call {}, {}", next_[stage] + 1, at(stage)->str());
    }
    return text;
  }

 private:
  const StageCall* at(size_t stage) const {
    return next_[stage] < calls_[stage].size() ? &calls_[stage][next_[stage]] : nullptr;
  }

  bool meet_all() {
    const StageCall* const first = at(0);
    if (first == nullptr || first->kind != Kind::kAll) return false;
    for (size_t stage = 1; stage < calls_.size(); ++stage) {
      if (at(stage) == nullptr || *at(stage) != *first) return false;
    }
    for (size_t& next : next_) ++next;
    return true;
  }

  bool meet_two() {
    for (size_t stage = 0; stage < calls_.size(); ++stage) {
      const StageCall* const call = at(stage);
      if (call == nullptr || call->kind != Kind::kSend || call->peer < 0 ||
          call->peer >= static_cast<int>(calls_.size())) {
        continue;
      }
      const StageCall* const other = at(static_cast<size_t>(call->peer));
      if (other == nullptr || other->kind != Kind::kRecv ||
          other->peer != static_cast<int>(stage) || other->what != call->what) {
        continue;
      }
      ++next_[stage];
      ++next_[static_cast<size_t>(call->peer)];
      return true;
    }
    return false;
  }

  const std::vector<std::vector<StageCall>>& calls_;
  std::vector<size_t> next_;
};

}  // namespace

std::string StageCall::str() const {
  if (kind == Kind::kAll) return what;
  return fmt::format("{} {}: {}", kind == Kind::kSend ? "send to" : "recv from", peer, what);
}

std::string to_lines(const std::vector<StageCall>& calls) {
  std::string lines;
  for (const StageCall& call : calls) {
    lines += fmt::format("{} {} {}\n", kLetters[static_cast<int>(call.kind)], call.peer, call.what);
  }
  return lines;
}

std::vector<StageCall> parse_stage_calls(const std::string& lines) {
  std::vector<StageCall> calls;
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    char letter = 0;
    StageCall call;
    words >> letter >> call.peer;
    call.kind = static_cast<Kind>(std::find(kLetters, kLetters + 3, letter) - kLetters);
    words.get();
    std::getline(words, call.what);
    calls.push_back(std::move(call));
  }
  return calls;
}

std::optional<std::string> check_stages(const std::vector<std::vector<StageCall>>& calls) {
  Lanes lanes(calls);
  if (lanes.run()) return std::nullopt;
  return "sends and recvs of the stages do not meet:" + lanes.where();
}

}  // namespace monograph::analysis
