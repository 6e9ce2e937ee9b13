#include "diagnose/hang/ras.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "diagnose/hang/line_scan.h"

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

class JsonReport {
 public:
  explicit JsonReport(std::vector<Communicator> communicators)
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
                      ? "aborted its communicator"
                      : fmt::format("has NCCL error {} in its communicator", member.async_error));
      }
    }
    add_missing(key, dead, "is dead: RAS could not reach its process for a minute");
    add_missing(key, silent, "does not answer RAS: its process is stopped or busy");
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
    std::vector<int> behind;
    for (const auto& [counts, ranks] : by_counts) {
      if (total(counts) == least && least < most)
        behind.insert(behind.end(), ranks.begin(), ranks.end());
      add_claim(Claim::Kind::kNote, key, ranks,
                fmt::format("rank {} launched {}", rank_list(ranks), counts_text(counts)));
    }
    if (!behind.empty()) {
      add_claim(Claim::Kind::kBehind, key, behind,
                fmt::format("launched {} collectives where others launched {}", least, most));
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
  return start != std::string_view::npos && head[start] == '{' &&
         has(head, "\"communicators_count\"");
}

Progress read_ras_json(std::string_view text, std::string_view path) {
  simdjson::dom::parser parser;
  element root;
  object report;
  simdjson::error_code error = parser.parse(text.data(), text.size()).get(root);
  if (error != simdjson::SUCCESS || root.get(report) != simdjson::SUCCESS) {
    throw_user_error("{}: damaged RAS report ({}); write it again with `ncclras -f json`", path,
                     simdjson::error_message(error));
  }
  Progress progress = JsonReport(read_communicators(report)).read();
  progress.sources.emplace_back(path);
  return progress;
}

class RasText::Impl {
 public:
  void read(std::string_view raw) {
    std::string_view line = trim(raw);
    if (line.starts_with("#") && has(line, "(") && has(line, ")")) return on_communicator(line);
    if (line == "DEAD" || line == "INCOMPLETE" || line == "TIMEOUT") {
      in_process_list_ = line;
      communicator_.clear();
      return;
    }
    if (has(line, " have launched up to operation ") ||
        has(line, " has launched up to operation ")) {
      return on_count(line);
    }
    if (has(line, "-- GPU ") && line.starts_with("Rank ")) return on_member(line);
    if (line.starts_with("The missing rank")) return on_missing(line);
    if (line.starts_with("Process ") && has(line, " on node ")) return on_process(line);
  }

  Progress finish() {
    close_counts();
    for (auto& [key, ranks] : missing_) {
      progress_.claims.push_back({Claim::Kind::kUnreachable,
                                  key,
                                  {ranks.begin(), ranks.end()},
                                  dead_.empty()
                                      ? "does not answer RAS: its process is stopped or busy"
                                      : "is dead: RAS could not reach its process for a minute",
                                  process_lines_.empty() ? "" : process_lines_.front()});
    }
    return std::move(progress_);
  }

 private:
  struct Count {
    int64_t num_ranks = 0;
    int64_t operation = 0;
    std::vector<int> ranks;  // as far as RAS listed them
    std::string line;
  };

  // "#0-0 (27a079b828ff1a75) MISMATCH"
  void on_communicator(std::string_view line) {
    close_counts();
    communicator_ = before(*after(line, "("), ")");
    in_process_list_.clear();
    std::string key = group_key(communicator_, {});
    progress_.groups[key].name = communicator_;
  }

  void on_count(std::string_view line) {
    Count count;
    count.num_ranks = leading_integer(line).value_or(0);
    std::string_view operation = *after(line, "up to operation ");
    size_t digit = operation.find_first_of("0123456789");
    if (communicator_.empty() || digit == std::string_view::npos) return;
    count.operation = leading_integer(operation.substr(digit)).value_or(0);
    count.line = line;
    counts_.push_back(std::move(count));
  }

  void on_member(std::string_view line) {
    int64_t rank = integer_after(line, "Rank ").value_or(-1);
    if (rank >= 0 && rank < kMaxRank && !counts_.empty())
      counts_.back().ranks.push_back(static_cast<int>(rank));
  }

  void on_missing(std::string_view line) {
    if (communicator_.empty()) return;
    std::vector<int> ranks = leading_ranks(after(line, ":").value_or(std::string_view()));
    missing_[group_key(communicator_, {})].insert(ranks.begin(), ranks.end());
  }

  void on_process(std::string_view line) {
    if (in_process_list_.empty() || process_lines_.size() >= 16) return;
    process_lines_.emplace_back(line);
    if (in_process_list_ == "DEAD") dead_.emplace_back(line);
  }

  void close_counts() {
    if (counts_.size() > 1) {
      auto [least, most] = std::minmax_element(
          counts_.begin(), counts_.end(),
          [](const Count& a, const Count& b) { return a.operation < b.operation; });
      std::string key = group_key(communicator_, {});
      for (const Count& count : counts_) {
        progress_.claims.push_back({Claim::Kind::kNote, key, count.ranks, count.line, ""});
      }
      if (least->operation < most->operation) {
        progress_.claims.push_back(
            {Claim::Kind::kBehind, key, least->ranks,
             fmt::format("launched up to operation {} where others launched up to {}",
                         least->operation, most->operation),
             ""});
      }
    }
    counts_.clear();
  }

  Progress progress_;
  std::string communicator_;
  std::string in_process_list_;
  std::vector<Count> counts_;
  std::map<std::string, std::set<int>> missing_;
  std::vector<std::string> dead_;
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
