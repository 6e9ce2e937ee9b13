#include "comm/call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

namespace monograph::comm {

std::string_view name_of(Operation operation) {
  static constexpr std::string_view kNames[] = {"all_reduce",     "broadcast",  "all_gather",
                                                "reduce_scatter", "all_to_all", "send",
                                                "recv",           "barrier"};
  return kNames[static_cast<size_t>(operation)];
}

std::string_view Call::label_text() const {
  return {label.data(),
          static_cast<size_t>(std::find(label.begin(), label.end(), '\0') - label.begin())};
}

Call make_call(Operation operation, int64_t count, ElementType type, std::string_view label) {
  Call call;
  call.operation = operation;
  call.count = count;
  call.type = type;
  std::copy_n(label.begin(), std::min(label.size(), call.label.size()), call.label.begin());
  return call;
}

bool agree(const Call& mine, const Call& other) {
  const auto shared = [](const Call& call) {
    return std::tie(call.sequence, call.count, call.type, call.label);
  };
  if (shared(mine) != shared(other)) return false;
  if (is_pairwise(mine.operation)) return is_pairwise(other.operation);
  return mine.operation == other.operation && mine.reduce == other.reduce &&
         mine.peer == other.peer;
}

std::string describe(const Call& call, const Group& group) {
  std::string text(name_of(call.operation));
  const bool reduces =
      call.operation == Operation::kAllReduce || call.operation == Operation::kReduceScatter;
  if (reduces) text += fmt::format(" {}", name_of(call.reduce));
  if (call.operation != Operation::kBarrier) {
    text += fmt::format(" of {} {}", call.count, name_of(call.type));
  }
  if (call.peer >= 0 && call.peer < group.size()) {
    const char* word = call.operation == Operation::kSend ? "to" : "from";
    text += fmt::format(" {} rank {}", word, group.ranks[static_cast<size_t>(call.peer)]);
  }
  return text + fmt::format(" '{}'", call.label_text());
}

std::string describe_ranks(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace monograph::comm
