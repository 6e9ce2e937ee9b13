#include "diagnose/hang/ras.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "diagnose/line_scan.h"

namespace monograph::diagnose {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr int64_t kMaxRank = 1 << 24;

int64_t integer_of(const object& from, std::string_view key) {
  int64_t value = -1;
  return from[key].get(value) == simdjson::SUCCESS ? value : -1;
}

bool bool_of(const object& from, std::string_view key) {
  bool value = false;
  return from[key].get(value) == simdjson::SUCCESS && value;
}

std::string text_of(const object& from, std::string_view key) {
  std::string_view text;
  return from[key].get(text) == simdjson::SUCCESS ? std::string(text) : std::string();
}

// One rank's entry of a communicator; `missing` are the ones RAS could not ask.
struct Member {
  int rank = -1;
  std::tuple<std::string, int64_t, int64_t> process;  // host, pid, device
  bool missing = false;
  bool dead = false;
  int64_t async_error = 0;
  bool aborted = false;
  std::map<std::string, int64_t> counts;
};

struct Communicator {
  std::string hash;
  int64_t size = 0;
  std::vector<Member> members;
};

Member read_member(const object& from, bool missing) {
  Member member;
  member.rank = static_cast<int>(std::clamp<int64_t>(integer_of(from, "rank"), -1, kMaxRank));
  member.process = {text_of(from, "host"), integer_of(from, "pid"), integer_of(from, "cuda_dev")};
  member.missing = missing;
  object status;
  if (from["status"].get(status) == simdjson::SUCCESS) {
    member.dead = bool_of(status, "considered_dead");
    member.async_error = std::max<int64_t>(integer_of(status, "async_error"), 0);
    member.aborted = bool_of(status, "abort_flag");
  }
  object counts;
  if (from["collective_counts"].get(counts) == simdjson::SUCCESS) {
    for (auto [name, value] : counts) {
      int64_t count = 0;
      if (value.get(count) == simdjson::SUCCESS) member.counts[std::string(name)] = count;
    }
  }
  return member;
}

std::vector<Communicator> read_communicators(const object& root) {
  std::vector<Communicator> result;
  array list;
  if (root["communicators"].get(list) != simdjson::SUCCESS) return result;
  for (element item : list) {
    object from;
    if (item.get(from) != simdjson::SUCCESS) continue;
    Communicator communicator{text_of(from, "hash"), integer_of(from, "size"), {}};
    for (std::string_view key : {"ranks", "missing_ranks"}) {
      array members;
      if (from[key].get(members) != simdjson::SUCCESS) continue;
      for (element entry : members) {
        object member;
        if (entry.get(member) == simdjson::SUCCESS) {
          communicator.members.push_back(read_member(member, key == "missing_ranks"));
        }
      }
    }
    result.push_back(std::move(communicator));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Communicator& a, const Communicator& b) { return a.size > b.size; });
  return result;
}

std::string counts_text(const std::map<std::string, int64_t>& counts) {
  std::string out;
  for (const auto& [op, count] : counts) {
    if (count > 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", op, count);
  }
  return out.empty() ? "none" : out;
}

// What RAS said of all communicators, as progress.
class RasReport {
 public:
  explicit RasReport(std::vector<Communicator> communicators)
      : communicators_(std::move(communicators)) {
    for (const Communicator& communicator : communicators_) {
      for (const Member& member : communicator.members)
        global_.try_emplace(member.process, member.rank);
    }
  }

  Progress read() {
    for (const Communicator& communicator : communicators_) {
      if (progress_.world_size < 0)
        progress_.world_size = static_cast<int>(std::min(communicator.size, kMaxRank));
      read_one(communicator);
    }
    return std::move(progress_);
  }

 private:
  int rank_of(const Member& member) const { return global_.at(member.process); }

  void read_one(const Communicator& communicator) {
    std::vector<int> ranks;
    for (const Member& member : communicator.members) ranks.push_back(rank_of(member));
    std::sort(ranks.begin(), ranks.end());
    std::string key = group_key(communicator.hash, {});
    progress_.groups[key] = {communicator.hash, "", std::move(ranks)};
    std::set<int> dead;
    std::set<int> silent;
    std::map<std::map<std::string, int64_t>, std::vector<int>> by_counts;
    for (const Member& member : communicator.members) {
      int rank = rank_of(member);
      progress_.ranks_seen.insert(rank);
      if (member.missing) {
        (member.dead ? dead : silent).insert(rank);
        continue;
      }
      by_counts[member.counts].push_back(rank);
      if (member.async_error != 0 || member.aborted) {
        add_claim(Claim::Kind::kUnreachable, key, {rank},
                  member.aborted
                      ? "its communicator is aborted"
                      : fmt::format("NCCL error {} in its communicator", member.async_error));
      }
    }
    add_missing(key, dead, "dead, RAS could not reach its process for a minute");
    add_missing(key, silent, "no answer to RAS, its process is stopped or busy");
    if (by_counts.size() > 1) compare_counts(key, by_counts);
  }

  void add_missing(const std::string& key, const std::set<int>& ranks, std::string_view text) {
    if (!ranks.empty()) {
      add_claim(Claim::Kind::kUnreachable, key, {ranks.begin(), ranks.end()}, std::string(text));
    }
  }

  void compare_counts(const std::string& key,
                      const std::map<std::map<std::string, int64_t>, std::vector<int>>& by_counts) {
    auto total = [](const std::map<std::string, int64_t>& counts) {
      int64_t sum = 0;
      for (const auto& [op, count] : counts) {
        if (count > 0 && sum < std::numeric_limits<int64_t>::max() - count) sum += count;
      }
      return sum;
    };
    int64_t most = 0;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const auto& [counts, ranks] : by_counts) {
      most = std::max(most, total(counts));
      least = std::min(least, total(counts));
    }
    for (const auto& [counts, ranks] : by_counts) {
      add_claim(Claim::Kind::kNote, key, ranks,
                fmt::format("rank {} launched {}", rank_list(ranks), counts_text(counts)));
    }
    if (least < most) {
      // Who launched more waits in the first collective that the others have not launched.
      progress_.is_snapshot = true;
      for (const auto& [counts, ranks] : by_counts) {
        for (int rank : ranks)
          progress_.ranks[rank].groups[key] = {total(counts), -1, std::min(least, total(counts))};
      }
      return;
    }
    // Equal totals of different kinds: the ranks called different operations.
    const auto& odd =
        std::min_element(by_counts.begin(), by_counts.end(), [](const auto& a, const auto& b) {
          return a.second.size() < b.second.size();
        })->second;
    add_claim(Claim::Kind::kBehind, key, odd,
              "launched as many collectives as the others, but other ones");
  }

  void add_claim(Claim::Kind kind, const std::string& group, std::vector<int> ranks,
                 std::string text) {
    std::sort(ranks.begin(), ranks.end());
    progress_.claims.push_back({kind, group, std::move(ranks), std::move(text), ""});
  }

  std::vector<Communicator> communicators_;
  std::map<std::tuple<std::string, int64_t, int64_t>, int> global_;
  Progress progress_;
};

}  // namespace

bool looks_like_ras_json(std::string_view head) {
  size_t start = head.find_first_not_of(" \t\r\n");
  // Straight from the socket an "OK" stands before it.
  if (start != std::string_view::npos && head.substr(start).starts_with("OK\n")) {
    start = head.find_first_not_of(" \t\r\n", start + 3);
  }
  return start != std::string_view::npos && head[start] == '{' &&
         has(head, "\"communicators_count\"");
}

Progress read_ras_json(std::string_view text, std::string_view path) {
  simdjson::dom::parser parser;
  element root;
  object report;
  text.remove_prefix(std::min(text.size(), text.find('{')));
  simdjson::error_code error = parser.parse(text.data(), text.size()).get(root);
  if (error != simdjson::SUCCESS || root.get(report) != simdjson::SUCCESS) {
    throw_user_error("{}: damaged RAS report ({}); write it again with `ncclras -f json`", path,
                     simdjson::error_message(error));
  }
  Progress progress = RasReport(read_communicators(report)).read();
  progress.sources.emplace_back(path);
  return progress;
}

class RasText::Impl {
 public:
  void read(std::string_view raw) {
    std::string_view line = trim(raw);
    if (line.starts_with("#") && has(line, "(") && has(line, ")")) return on_communicator(line);
    if (line == "DEAD" || line == "INCOMPLETE" || line == "TIMEOUT") {
      process_list_ = line;
      communicator_.clear();
      return;
    }
    if (has(line, "PEER_DEAD: Process ")) return on_dead_peer(line);
    if (line.starts_with("Communicator ranks have different ")) return on_comparison(line);
    if (has(line, " launched up to operation ") || has(line, " not launched any operation"))
      return on_count(line);
    if (has(line, "-- GPU ") && line.starts_with("Rank ")) return on_member(line);
    if (line.starts_with("The missing rank")) return on_missing(line);
    if (line.starts_with("Process ") && has(line, " on node ")) return on_process(line);
  }

  Progress finish() {
    close_communicator();
    merge_progress(progress_, RasReport(std::move(communicators_)).read());
    for (auto& [key, ranks] : missing_) {
      progress_.claims.push_back({Claim::Kind::kUnreachable,
                                  key,
                                  {ranks.begin(), ranks.end()},
                                  is_dead_ ? "dead, RAS could not reach its process for a minute"
                                           : "no answer to RAS, its process is stopped or busy",
                                  process_lines_.empty() ? "" : process_lines_.front()});
    }
    return std::move(progress_);
  }

 private:
  // Ranks that launched as many operations of a kind.
  struct Count {
    int64_t num_ranks = 0;
    int64_t operation = 0;
    std::vector<int> ranks;  // as far as RAS listed them
    std::string line;
    bool is_whole() const { return static_cast<int64_t>(ranks.size()) == num_ranks; }
  };

  // "#0-0 (27a079b828ff1a75) MISMATCH"
  void on_communicator(std::string_view line) {
    close_communicator();
    communicator_ = before(*after(line, "("), ")");
    process_list_.clear();
    progress_.groups[group_key(communicator_, {})].name = communicator_;
  }

  // "Communicator ranks have different AllReduce operation counts"; before 2.26 "different
  // collective operation ...".
  void on_comparison(std::string_view line) {
    close_counts();
    op_ = before(*after(line, "different "), " operation");
  }

  // "26 ranks have launched up to operation 6650", "Rank 0 has launched up to operation 4 -- GPU 0
  // managed by ...", "Rank 0 has not launched any operations -- GPU 0 ..."
  void on_count(std::string_view line) {
    if (communicator_.empty()) return;
    Count count;
    count.line = line;
    count.operation = integer_after(line, " launched up to operation ").value_or(0);
    if (line.starts_with("Rank ")) {
      count.num_ranks = 1;
      add_rank(count, integer_after(line, "Rank ").value_or(-1));
    } else {
      count.num_ranks = leading_integer(line).value_or(0);
    }
    counts_.push_back(std::move(count));
  }

  static void add_rank(Count& count, int64_t rank) {
    if (rank >= 0 && rank < kMaxRank) count.ranks.push_back(static_cast<int>(rank));
  }

  void on_member(std::string_view line) {
    if (!counts_.empty()) add_rank(counts_.back(), integer_after(line, "Rank ").value_or(-1));
  }

  void on_missing(std::string_view line) {
    if (communicator_.empty()) return;
    std::vector<int> ranks = leading_ranks(after(line, ":").value_or(std::string_view()));
    missing_[group_key(communicator_, {})].insert(ranks.begin(), ranks.end());
  }

  void on_process(std::string_view line) {
    if (process_list_.empty() || process_lines_.size() >= 16) return;
    process_lines_.emplace_back(line);
    if (process_list_ == "DEAD") is_dead_ = true;
  }

  // Monitor mode knows processes, not ranks.
  void on_dead_peer(std::string_view line) {
    progress_.claims.push_back(
        {Claim::Kind::kUnreachable, "", {}, "dead, RAS could not reach it", std::string(line)});
  }

  // Where all sides list their ranks the counts are compared as those of the JSON form.
  void close_counts() {
    bool whole = std::all_of(counts_.begin(), counts_.end(),
                             [](const Count& count) { return count.is_whole(); });
    for (const Count& count : counts_) {
      if (!whole) break;
      for (int rank : count.ranks) members_[rank][op_] = count.operation;
    }
    if (!whole && counts_.size() > 1) state_behind();
    counts_.clear();
  }

  void state_behind() {
    auto [least, most] = std::minmax_element(
        counts_.begin(), counts_.end(),
        [](const Count& a, const Count& b) { return a.operation < b.operation; });
    std::string key = group_key(communicator_, {});
    for (const Count& count : counts_) {
      progress_.claims.push_back({Claim::Kind::kNote, key, count.ranks, count.line, ""});
    }
    if (least->operation == most->operation) return;
    progress_.claims.push_back(
        {Claim::Kind::kBehind, key, least->ranks,
         fmt::format("launched up to operation {} where others launched up to {}", least->operation,
                     most->operation),
         ""});
  }

  void close_communicator() {
    close_counts();
    if (members_.empty()) return;
    Communicator communicator{communicator_, static_cast<int64_t>(members_.size()), {}};
    for (auto& [rank, counts] : members_) {
      Member member;
      member.rank = rank;
      member.process = {"", rank, 0};  // the text form names ranks of the communicator only
      member.counts = std::move(counts);
      communicator.members.push_back(std::move(member));
    }
    communicators_.push_back(std::move(communicator));
    members_.clear();
  }

  Progress progress_;
  std::vector<Communicator> communicators_;
  std::string communicator_;
  std::string op_ = "collective";
  std::string process_list_;
  std::vector<Count> counts_;
  std::map<int, std::map<std::string, int64_t>> members_;  // rank -> operation -> count
  std::map<std::string, std::set<int>> missing_;
  bool is_dead_ = false;
  std::vector<std::string> process_lines_;
};

RasText::RasText() : impl_(std::make_unique<Impl>()) {}
RasText::~RasText() = default;
void RasText::read(std::string_view line) {
  impl_->read(line);
}
Progress RasText::finish() {
  return impl_->finish();
}

}  // namespace monograph::diagnose
