#include "comm/flight_recorder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <nlohmann/json.hpp>

namespace monograph::comm {
namespace {

int64_t wall_clock_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

const char* torch_name(ElementType type) {
  static constexpr const char* kNames[] = {"Float", "Double", "BFloat16", "Half",
                                           "Int",   "Long",   "Byte"};
  return kNames[static_cast<size_t>(type)];
}

// "gloo:all_reduce", "gloo:send 0->3", "gloo:recv 0<-3": numbers inside the group.
std::string title_of(std::string_view backend, const Call& call, const Group& group) {
  std::string title = fmt::format("{}:{}", backend, name_of(call.operation));
  if (call.operation == Operation::kSend) title += fmt::format(" {}->{}", group.index, call.peer);
  if (call.operation == Operation::kRecv) title += fmt::format(" {}<-{}", group.index, call.peer);
  return title;
}

struct Counts {
  int64_t in;
  int64_t out;
};

Counts counts_of(const Call& call, int group_size) {
  switch (call.operation) {
    case Operation::kAllGather:
      return {call.count, call.count * group_size};
    case Operation::kReduceScatter:
      return {call.count * group_size, call.count};
    case Operation::kAllToAll:
      return {call.count * group_size, call.count * group_size};
    default:
      return {call.count, call.count};
  }
}

}  // namespace

void FlightRecorder::add_group(const Group& group) {
  const std::scoped_lock lock(mutex_);
  groups_[group.name] = group;
}

int64_t FlightRecorder::begin(const std::string& group, const Call& call) {
  const std::scoped_lock lock(mutex_);
  if (entries_.size() == kCapacity) entries_.pop_front();
  entries_.push_back({num_begun_, group, call, wall_clock_ns()});
  if (!is_pairwise(call.operation)) progress_[group] = {call, false};
  return num_begun_++;
}

void FlightRecorder::finish(int64_t number) {
  const std::scoped_lock lock(mutex_);
  if (entries_.empty() || number < entries_.front().number) return;  // fell out of the ring
  Entry& entry = entries_[static_cast<size_t>(number - entries_.front().number)];
  entry.finished_ns = wall_clock_ns();
  if (is_pairwise(entry.call.operation)) return;
  Progress& progress = progress_[entry.group];
  if (progress.call.sequence == entry.call.sequence) progress.is_done = true;
}

std::optional<Progress> FlightRecorder::progress(const std::string& group) const {
  const std::scoped_lock lock(mutex_);
  const auto found = progress_.find(group);
  return found == progress_.end() ? std::nullopt : std::optional(found->second);
}

std::map<std::string, Progress> FlightRecorder::all_progress() const {
  const std::scoped_lock lock(mutex_);
  return progress_;
}

std::string FlightRecorder::json(std::string_view backend, int64_t timeout_ms) const {
  using nlohmann::json;
  const std::scoped_lock lock(mutex_);
  json dump = {
      {"version", "2.10"},           {"comm_lib_version", "monograph"}, {"rank", rank_},
      {"pg_config", json::object()}, {"pg_status", json::object()},     {"entries", json::array()}};
  std::map<std::string, int64_t> ids;
  for (const auto& [name, group] : groups_) {
    const auto id = static_cast<int64_t>(ids.size());
    ids[name] = id;
    dump["pg_config"][name] = {
        {"name", name}, {"desc", name}, {"ranks", fmt::format("{}", group.ranks)}};
    const auto progress = progress_.find(name);
    const bool is_known = progress != progress_.end();
    const int64_t begun = is_known ? progress->second.call.sequence : 0;
    dump["pg_status"][std::to_string(id)] = {
        {"last_enqueued_collective", begun},
        {"last_started_collective", begun},
        {"last_completed_collective", is_known && !progress->second.is_done ? begun - 1 : begun}};
  }
  for (const Entry& entry : entries_) {
    const Group& group = groups_.at(entry.group);
    const Counts counts = counts_of(entry.call, group.size());
    const bool is_p2p = is_pairwise(entry.call.operation);
    const bool is_done = entry.finished_ns != 0;
    dump["entries"].push_back(
        {{"record_id", entry.number},
         {"pg_id", ids.at(entry.group)},
         {"process_group", json::array({entry.group, entry.group})},
         {is_p2p ? "p2p_seq_id" : "collective_seq_id", entry.call.sequence},
         {"op_id", entry.number},
         {"profiling_name", title_of(backend, entry.call, group)},
         {"label", entry.call.label_text()},
         {"time_created_ns", entry.began_ns},
         {"time_discovered_started_ns", entry.began_ns},
         {"time_discovered_completed_ns", is_done ? json(entry.finished_ns) : json()},
         {"input_sizes", json::array({json::array({counts.in})})},
         {"input_dtypes", json::array({torch_name(entry.call.type)})},
         {"output_sizes", json::array({json::array({counts.out})})},
         {"output_dtypes", json::array({torch_name(entry.call.type)})},
         {"state", is_done ? "completed" : "started"},
         {"timeout_ms", timeout_ms},
         {"is_p2p", is_p2p},
         {"retired", is_done},
         {"frames", json::array()}});
  }
  return dump.dump(1, ' ', false, json::error_handler_t::replace);
}

}  // namespace monograph::comm
