#include "diagnose/hang/flight_recorder.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "diagnose/hang/pickle.h"

namespace monograph::diagnose {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

std::string text_of(const object& from, std::string_view key) {
  std::string_view text;
  return from[key].get(text) == simdjson::SUCCESS ? std::string(text) : std::string();
}

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A number, or a number written as a string, which the JSON form of the dump has in places.
int64_t integer_of(const object& from, std::string_view key, int64_t missing) {
  element value;
  if (from[key].get(value) != simdjson::SUCCESS) return missing;
  int64_t number = 0;
  if (value.get(number) == simdjson::SUCCESS) return number;
  double real = 0;
  if (value.get(real) == simdjson::SUCCESS && real > -9e18 && real < 9e18) {
    return static_cast<int64_t>(real);
  }
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) return parse_integer(text).value_or(missing);
  return missing;
}

bool bool_of(const object& from, std::string_view key) {
  bool value = false;
  return from[key].get(value) == simdjson::SUCCESS && value;
}

// "[0, 1, 2]", or the same as an array.
std::vector<int> ranks_of(const object& from) {
  std::vector<int> ranks;
  element value;
  if (from["ranks"].get(value) != simdjson::SUCCESS) return ranks;
  array list;
  if (value.get(list) == simdjson::SUCCESS) {
    for (element item : list) {
      int64_t rank = 0;
      if (item.get(rank) == simdjson::SUCCESS) ranks.push_back(static_cast<int>(rank));
    }
  }
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) {
    for (size_t i = 0; i < text.size();) {
      int rank = 0;
      auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), rank);
      if (error == std::errc()) ranks.push_back(rank);
      i = error == std::errc() ? static_cast<size_t>(end - text.data()) : i + 1;
    }
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

struct Sizes {
  int64_t num_elements = -1;
  std::string shape;
};

// [[4096, 5120], [16]] is two tensors.
Sizes sizes_of(const object& from, std::string_view key) {
  Sizes sizes;
  array tensors;
  if (from[key].get(tensors) != simdjson::SUCCESS) return sizes;
  for (element tensor : tensors) {
    array dims;
    if (tensor.get(dims) != simdjson::SUCCESS) continue;
    uint64_t count = 1;
    std::string shape;
    for (element dim : dims) {
      int64_t extent = 0;
      if (dim.get(extent) != simdjson::SUCCESS) continue;
      count *= static_cast<uint64_t>(extent);
      shape += fmt::format("{}{}", shape.empty() ? "" : ", ", extent);
    }
    uint64_t total = static_cast<uint64_t>(std::max<int64_t>(sizes.num_elements, 0)) + count;
    sizes.num_elements = static_cast<int64_t>(total);
    if (sizes.shape.size() < 120) {  // a bucket may hold hundreds of tensors
      sizes.shape += fmt::format("{}[{}]", sizes.shape.empty() ? "" : " ", shape);
    } else if (!sizes.shape.ends_with("...")) {
      sizes.shape += " ...";
    }
  }
  return sizes;
}

std::string first_dtype(const object& from, std::string_view key) {
  array dtypes;
  if (from[key].get(dtypes) != simdjson::SUCCESS) return {};
  for (element dtype : dtypes) {
    std::string_view text;
    if (dtype.get(text) == simdjson::SUCCESS) return std::string(text);
  }
  return {};
}

std::vector<StackFrame> frames_of(const object& from) {
  std::vector<StackFrame> frames;
  array list;
  if (from["frames"].get(list) != simdjson::SUCCESS) return frames;
  for (element item : list) {
    object frame;
    if (item.get(frame) != simdjson::SUCCESS) continue;
    frames.push_back(
        {text_of(frame, "name"), text_of(frame, "filename"), integer_of(frame, "line", 0)});
  }
  return frames;
}

class DumpReader {
 public:
  DumpReader(const object& dump, std::string_view path) : dump_(dump), path_(path) {}

  Progress read() {
    read_groups();
    read_entries();
    close_coalesced();
    read_status();
    int rank = find_rank();
    for (Call& call : calls_) resolve_peers(call);
    RankProgress progress;
    progress.groups = std::move(status_);
    progress.calls = std::move(calls_);
    progress.is_complete = true;
    progress.source = path_;
    result_.ranks.emplace(rank, std::move(progress));
    result_.ranks_seen.insert(rank);
    result_.sources.push_back(std::string(path_));
    return std::move(result_);
  }

 private:
  void read_groups() {
    object config;
    if (dump_["pg_config"].get(config) != simdjson::SUCCESS) return;
    for (auto [name, value] : config) {
      object entry;
      if (value.get(entry) != simdjson::SUCCESS) continue;
      Group group{std::string(name), text_of(entry, "desc"), ranks_of(entry)};
      // Gloo registers only its default group, without a name.
      if (name.empty()) group = {"0", "default_pg", group.ranks};
      if (group.description == "default_pg") {
        result_.world_size = std::max(result_.world_size, static_cast<int>(group.ranks.size()));
      }
      std::string key = group_key(group.name, group.ranks);
      keys_[group.name] = key;
      result_.groups.emplace(key, std::move(group));
    }
  }

  std::string key_of(const std::string& name, const std::string& description) {
    auto found = keys_.find(name);
    if (found != keys_.end()) return found->second;
    std::string key = group_key(name, {});
    keys_[name] = key;
    result_.groups.emplace(key, Group{name, description, {}});
    return key;
  }

  void read_entries() {
    array entries;
    if (dump_["entries"].get(entries) != simdjson::SUCCESS) {
      throw_user_error("{}: no list 'entries' in this flight recorder dump", path_);
    }
    for (element item : entries) {
      object entry;
      if (item.get(entry) != simdjson::SUCCESS) continue;
      std::string name;
      std::string description;
      array pair;
      if (entry["process_group"].get(pair) == simdjson::SUCCESS) {
        std::string_view text;
        if (pair.at(0).get(text) == simdjson::SUCCESS) name = text;
        if (pair.at(1).get(text) == simdjson::SUCCESS) description = text;
      } else {
        // Before 2.3 an entry had only the local number of its group.
        name = text_of(entry, "process_group");
        if (name.empty()) name = fmt::format("{}", integer_of(entry, "pg_id", 0));
      }
      calls_.push_back(read_call(entry, key_of(name, description)));
      calls_.back().caller = caller_of(frames_of(entry));
      numbers_.push_back(
          {integer_of(entry, "collective_seq_id", -1), integer_of(entry, "p2p_seq_id", -1)});
      if (int64_t id = integer_of(entry, "pg_id", -1); id >= 0)
        group_of_id_[id] = calls_.back().group;
    }
  }

  static Call read_call(const object& entry, std::string group) {
    Call call;
    call.group = std::move(group);
    std::string title = text_of(entry, "profiling_name");
    call.op = plain_op(title);
    call.is_p2p = bool_of(entry, "is_p2p") || call.op == "send" || call.op == "recv";
    call.sequence = integer_of(entry, call.is_p2p ? "p2p_seq_id" : "collective_seq_id", -1);
    if (call.sequence < 0) call.sequence = integer_of(entry, "seq_id", -1);  // before 2.3
    if (call.is_p2p) read_peers(title, call);
    Sizes in = sizes_of(entry, "input_sizes");
    Sizes out = sizes_of(entry, "output_sizes");
    call.num_elements_in = in.num_elements;
    call.num_elements_out = out.num_elements;
    call.shape_in = std::move(in.shape);
    call.shape_out = std::move(out.shape);
    call.dtype = first_dtype(entry, "input_dtypes");
    if (call.dtype.empty()) call.dtype = first_dtype(entry, "output_dtypes");
    std::string state = text_of(entry, "state");
    call.state = state == "completed" ? CallState::kCompleted
                 : state == "started" ? CallState::kStarted
                                      : CallState::kScheduled;
    call.pending = call.state != CallState::kCompleted && !bool_of(entry, "retired");
    call.created_ns = integer_of(entry, "time_created_ns", 0);
    call.timeout_ms = integer_of(entry, "timeout_ms", -1);
    return call;
  }

  // Thousands of calls come from few places.
  std::shared_ptr<const StackFrame> caller_of(const std::vector<StackFrame>& frames) {
    const StackFrame* frame = user_frame(frames);
    if (frame == nullptr) return nullptr;
    auto& known = callers_[{frame->file, frame->line, frame->function}];
    if (known == nullptr) known = std::make_shared<const StackFrame>(*frame);
    return known;
  }

  // "nccl:send 0->3", "nccl:recv 0<-3", "gloo:recv 3<-?": numbers inside the group.
  static void read_peers(std::string_view title, Call& call) {
    size_t space = title.rfind(' ');
    if (space == std::string_view::npos) return;
    std::string_view pair = title.substr(space + 1);
    size_t right = pair.find("->");
    size_t left = pair.find("<-");
    size_t arrow = std::min(right, left);
    if (arrow == std::string_view::npos) return;
    auto peer = [](std::string_view text) {
      return static_cast<int>(std::clamp<int64_t>(parse_integer(text).value_or(-1), -1, 1 << 24));
    };
    int first = peer(pair.substr(0, arrow));
    int second = peer(pair.substr(arrow + 2));
    call.source = right < left ? first : second;
    call.destination = right < left ? second : first;
  }

  void resolve_peers(Call& call) const {
    auto group = result_.groups.find(call.group);
    if (!call.is_p2p || group == result_.groups.end() || group->second.ranks.empty()) return;
    const std::vector<int>& ranks = group->second.ranks;
    auto global = [&](int local) {
      return local >= 0 && local < static_cast<int>(ranks.size())
                 ? ranks[static_cast<size_t>(local)]
                 : -1;
    };
    call.source = global(call.source);
    call.destination = global(call.destination);
  }

  // Calls inside a coalesced batch are recorded without state; the entry 'coalesced' that ends the
  // batch has it. The batch's own numbers are those of its members, but it is never marked as
  // point-to-point.
  void close_coalesced() {
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (calls_[i].op.find("coalesced") == std::string::npos) continue;
      bool of_pairs = false;
      for (size_t j = i; j > 0; --j) {
        Call& member = calls_[j - 1];
        if (member.group != calls_[i].group) continue;
        bool in_batch = member.is_p2p ? numbers_[j - 1].p2p == numbers_[i].p2p
                                      : numbers_[j - 1].collective == numbers_[i].collective;
        if (!in_batch || member.op == "coalesced" || (of_pairs && !member.is_p2p)) break;
        of_pairs = of_pairs || member.is_p2p;
        member.state = calls_[i].state;
        member.pending = calls_[i].pending;
      }
      if (of_pairs) {
        calls_[i].is_p2p = true;
        calls_[i].sequence = numbers_[i].p2p;
      }
    }
  }

  // pg_status is by a number local to the process. Entries tell which group it is; groups without
  // entries are found by order, since both numbers grow in the order of creation.
  void read_status() {
    object table;
    if (dump_["pg_status"].get(table) != simdjson::SUCCESS) return;
    std::map<int64_t, GroupStatus> by_id;
    for (auto [id, value] : table) {
      object entry;
      std::optional<int64_t> number = parse_integer(id);
      if (!number || value.get(entry) != simdjson::SUCCESS) continue;
      auto count = [&](std::string_view key) { return integer_of(entry, key, -1); };
      // -1 in the file: nothing was enqueued yet, or starts are not tracked.
      by_id[*number] = {std::max<int64_t>(count("last_enqueued_collective"), 0),
                        count("last_started_collective"),
                        std::max<int64_t>(count("last_completed_collective"), 0)};
    }
    map_ids_by_order(by_id);
    for (const auto& [id, status] : by_id) {
      if (auto found = group_of_id_.find(id); found != group_of_id_.end()) {
        status_[found->second] = status;
      }
    }
  }

  void map_ids_by_order(const std::map<int64_t, GroupStatus>& by_id) {
    std::vector<std::pair<int64_t, std::string>> by_number;
    for (const auto& [key, group] : result_.groups) {
      std::optional<int64_t> number = parse_integer(group.name);
      if (!number) return;
      by_number.emplace_back(*number, key);
    }
    if (by_number.size() != by_id.size()) return;
    std::sort(by_number.begin(), by_number.end());
    std::map<int64_t, std::string> mapped;
    auto next = by_number.begin();
    for (const auto& [id, status] : by_id) mapped[id] = (next++)->second;
    for (const auto& [id, key] : group_of_id_) {
      if (auto found = mapped.find(id); found != mapped.end() && found->second != key) return;
    }
    group_of_id_ = std::move(mapped);
  }

  int find_rank() const {
    std::optional<std::vector<int>> in_all;
    for (const auto& [key, group] : result_.groups) {
      if (group.ranks.empty()) continue;
      if (!in_all) {
        in_all = group.ranks;
        continue;
      }
      std::vector<int> both;
      std::set_intersection(in_all->begin(), in_all->end(), group.ranks.begin(), group.ranks.end(),
                            std::back_inserter(both));
      in_all = std::move(both);
    }
    auto allowed = [&](int64_t rank) {
      return rank >= 0 && rank < 1 << 24 &&
             (!in_all || in_all->empty() ||
              std::binary_search(in_all->begin(), in_all->end(), static_cast<int>(rank)));
    };
    if (int64_t rank = integer_of(dump_, "rank", -1); allowed(rank)) return static_cast<int>(rank);
    std::string_view name = path_.substr(path_.rfind('/') + 1);
    size_t end = name.find_last_of("0123456789");
    while (end != std::string_view::npos) {
      size_t begin = name.find_last_not_of("0123456789", end);
      begin = begin == std::string_view::npos ? 0 : begin + 1;
      std::optional<int64_t> rank = parse_integer(name.substr(begin, end + 1 - begin));
      if (rank && allowed(*rank)) return static_cast<int>(*rank);
      end = begin == 0 ? std::string_view::npos : name.find_last_of("0123456789", begin - 1);
    }
    if (in_all && in_all->size() == 1) return in_all->front();
    throw_user_error(
        "{}: cannot tell which rank wrote this flight recorder dump; end the file's name with its "
        "rank, as in "
        "nccl_trace_rank_3",
        path_);
  }

  object dump_;
  std::string_view path_;
  Progress result_;
  std::map<std::string, std::string> keys_;     // group name -> key
  std::map<int64_t, std::string> group_of_id_;  // the process's own number -> key
  std::map<std::string, GroupStatus> status_;
  std::vector<Call> calls_;
  struct Numbers {
    int64_t collective;
    int64_t p2p;
  };
  std::map<std::tuple<std::string, int64_t, std::string>, std::shared_ptr<const StackFrame>>
      callers_;
  std::vector<Numbers> numbers_;  // of each call
};

}  // namespace

bool looks_like_flight_recorder_json(std::string_view head) {
  size_t start = head.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos || head[start] != '{') return false;
  auto has = [&](std::string_view key) { return head.find(key) != std::string_view::npos; };
  return has("\"pg_config\"") || has("\"collective_seq_id\"") || has("\"profiling_name\"") ||
         (has("\"entries\"") && (has("\"nccl_version\"") || has("\"comm_lib_version\"")));
}

Progress read_flight_recorder(std::string_view bytes, std::string_view path) {
  simdjson::dom::parser parser;
  element root;
  object dump;
  try {
    std::string converted;
    if (looks_like_pickle(bytes)) {
      converted = pickle_to_json(bytes);
      bytes = converted;
    }
    simdjson::error_code error = parser.parse(bytes.data(), bytes.size()).get(root);
    if (error != simdjson::SUCCESS) {
      throw_user_error("damaged JSON ({})", simdjson::error_message(error));
    }
  } catch (const UserError& error) {
    throw_user_error("{}: {}", path, error.what());
  }
  if (root.get(dump) != simdjson::SUCCESS) {
    throw_user_error("{}: a flight recorder dump is an object with 'entries'", path);
  }
  return DumpReader(dump, path).read();
}

}  // namespace monograph::diagnose
