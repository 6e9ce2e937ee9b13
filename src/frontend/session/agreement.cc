#include "frontend/session/agreement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "base/hash.h"
#include "ir/graph_table.h"
#include "ir/parser.h"

namespace monograph::session {
namespace {

constexpr size_t kMaxNamedRanks = 8;
constexpr std::string_view kSame = "same";

// The ranks of one digest: the first few, in ascending order, and how many in all.
struct Group {
  std::vector<int> ranks;
  int64_t count = 0;
};
using Groups = std::map<std::string, Group>;  // by digest

void merge(Groups& into, const Groups& from) {
  for (const auto& [digest, group] : from) {
    Group& target = into[digest];
    target.count += group.count;
    target.ranks.insert(target.ranks.end(), group.ranks.begin(), group.ranks.end());
    std::sort(target.ranks.begin(), target.ranks.end());
    target.ranks.resize(std::min(target.ranks.size(), kMaxNamedRanks));
  }
}

std::string to_text(const Groups& groups) {
  std::string text;
  for (const auto& [digest, group] : groups) {
    text += fmt::format("{} {} {}\n", digest, group.count, fmt::join(group.ranks, " "));
  }
  return text;
}

Groups parse_groups(const std::string& text) {
  Groups groups;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string digest;
    Group group;
    words >> digest >> group.count;
    for (int rank = 0; words >> rank;) group.ranks.push_back(rank);
    groups[digest] = std::move(group);
  }
  return groups;
}

std::string to_text(const Statement& statement) {
  std::string text;
  for (const auto& [name, value] : statement.facts) {
    text += fmt::format("{}\t{}\n", name, value);
  }
  text += '\n';
  for (const std::string& collective : statement.collectives) text += collective + '\n';
  return text + '\n' + statement.graph;
}

Statement parse_statement(const std::string& text) {
  Statement statement;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line) && !line.empty()) {
    const size_t tab = line.find('\t');
    statement.facts.emplace_back(line.substr(0, tab), line.substr(tab + 1));
  }
  while (std::getline(lines, line) && !line.empty()) statement.collectives.push_back(line);
  statement.graph = text.substr(static_cast<size_t>(lines.tellg()));
  return statement;
}

std::string ranks_text(const Group& group) {
  const bool is_one = group.count == 1;
  const auto hidden = group.count - static_cast<int64_t>(group.ranks.size());
  return fmt::format("rank{} {}{}", is_one ? "" : "s", fmt::join(group.ranks, ", "),
                     hidden == 0 ? "" : fmt::format(" and {} more", hidden));
}

std::string graph_difference(const Statement& a, const Statement& b) {
  if (a.graph == b.graph) return "";
  const auto first = ir::parse_graph(a.graph), second = ir::parse_graph(b.graph);
  const auto difference = ir::first_difference(*first, *second);
  return difference ? fmt::format("\n  graph: {}", *difference) : "";
}

std::string collective_difference(const Statement& a, const Statement& b) {
  const auto [first, second] = std::mismatch(a.collectives.begin(), a.collectives.end(),
                                             b.collectives.begin(), b.collectives.end());
  if (first == a.collectives.end() && second == b.collectives.end()) return "";
  return fmt::format("\n  collective {}: {} against {}", first - a.collectives.begin() + 1,
                     first == a.collectives.end() ? "none" : *first,
                     second == b.collectives.end() ? "none" : *second);
}

std::string differences(const Statement& a, const Statement& b) {
  std::string text;
  for (size_t i = 0; i < std::max(a.facts.size(), b.facts.size()); ++i) {
    const bool both = i < a.facts.size() && i < b.facts.size();
    if (both && a.facts[i] == b.facts[i]) continue;
    const auto value = [&](const Statement& s) {
      return i < s.facts.size() ? s.facts[i].second : "nothing";
    };
    text +=
        fmt::format("\n  {}: {} against {}",
                    i < a.facts.size() ? a.facts[i].first : b.facts[i].first, value(a), value(b));
  }
  return text + collective_difference(a, b) + graph_difference(a, b);
}

// What rank `from` has written under the key.
std::string heard(comm::Store& store, const std::string& key, int rank, int from,
                  const std::string& prefix, comm::Milliseconds timeout) {
  try {
    return store.get(key, timeout);
  } catch (const CommError& error) {
    throw CommError(
        fmt::format("{}: rank {} waited for rank {}, or one whose word it brings, to say what it "
                    "has compiled: {}",
                    prefix, rank, from, error.what()),
        {.rank = rank, .operation = "agreement", .label = prefix, .at_fault = {from}});
  }
}

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// All ranks compile in the same order, so that their counts are the same.
int64_t next_count(comm::Store& store, int rank) {
  return store.add(fmt::format("agree/count/{}", rank), 1);
}

class Agreement {
 public:
  // `ranks`: those that agree; `index`: this one's among them; `count`: of the agreements of this
  // rank, from 1.
  Agreement(comm::Store& store, std::vector<int> ranks, int index, int64_t count,
            const std::string& what, comm::Milliseconds timeout)
      : store_(store),
        ranks_(std::move(ranks)),
        rank_(index),
        size_(static_cast<int>(ranks_.size())),
        count_(count),
        prefix_(fmt::format("agreement {} {}", count, what)),
        timeout_(timeout) {}

  // The groups of the whole job as the root has put them together; empty: all are the same.
  Groups collect(const std::string& digest) {
    Groups groups = {{digest, {{ranks_[rank_]}, 1}}};
    for (const int child : {2 * rank_ + 1, 2 * rank_ + 2}) {
      if (child >= size_) continue;
      merge(groups, parse_groups(get(up_key(child), child)));
      store_.erase(up_key(child));
    }
    if (rank_ != 0) {
      store_.set(up_key(rank_), to_text(groups));
      const std::string verdict = get(verdict_key(count_), 0);
      return verdict == kSame ? Groups() : parse_groups(verdict);
    }
    if (groups.size() == 1) groups.clear();
    store_.set(verdict_key(count_), groups.empty() ? std::string(kSame) : to_text(groups));
    store_.erase(verdict_key(count_ - 1));  // all ranks have read it before they came here
    return groups;
  }

  [[noreturn]] void refuse(const Groups& groups, const Statement& own) {
    for (const auto& [digest, group] : groups) {
      if (group.ranks[0] == ranks_[rank_]) store_.set(statement_key(digest), to_text(own));
    }
    // The side of rank 0 first, then the others by their first rank.
    std::vector<std::pair<std::string, Group>> sides(groups.begin(), groups.end());
    std::sort(sides.begin(), sides.end(),
              [](const auto& a, const auto& b) { return a.second.ranks < b.second.ranks; });
    std::string text;
    const Statement first = statement_of(sides[0]);
    for (size_t i = 1; i < sides.size(); ++i) {
      text += fmt::format("\n{} against {}:{}", ranks_text(sides[0].second),
                          ranks_text(sides[i].second), differences(first, statement_of(sides[i])));
    }
    throw_user_error("{}: the {} ranks have not compiled the same; make these equal:{}", prefix_,
                     size_, text);
  }

 private:
  std::string up_key(int rank) const { return fmt::format("{}/up/{}", prefix_, rank); }
  std::string verdict_key(int64_t count) const {  // the same, whatever the ranks agree on
    return fmt::format("agreement {}/verdict of {} from {}", count, size_, ranks_[0]);
  }
  std::string statement_key(const std::string& digest) const {
    return fmt::format("{}/statement/{}", prefix_, digest);
  }

  std::string get(const std::string& key, int from) {
    return heard(store_, key, ranks_[rank_], ranks_[from], prefix_, timeout_);
  }

  Statement statement_of(const std::pair<std::string, Group>& side) {
    return parse_statement(heard(store_, statement_key(side.first), ranks_[rank_],
                                 side.second.ranks[0], prefix_, timeout_));
  }

  comm::Store& store_;
  const std::vector<int> ranks_;  // of the job
  const int rank_, size_;         // among them
  const int64_t count_;
  const std::string prefix_;
  const comm::Milliseconds timeout_;
};

}  // namespace

std::string Statement::digest() const {
  Hasher hasher;
  for (const auto& [name, value] : facts) hasher.add(name).add(value);
  for (const std::string& collective : collectives) hasher.add(collective);
  return hasher.finish().hex();
}

void agree(comm::Store& store, int rank, int size, const std::string& what,
           const Statement& statement, comm::Milliseconds timeout) {
  agree(store, rank, all_ranks(size), what, statement, timeout);
}

void agree(comm::Store& store, int rank, std::span<const int> ranks, const std::string& what,
           const Statement& statement, comm::Milliseconds timeout) {
  const int64_t count = next_count(store, rank);
  if (ranks.size() == 1) return;
  const auto index = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  Agreement agreement(store, {ranks.begin(), ranks.end()}, index, count, what, timeout);
  const Groups groups = agreement.collect(statement.digest());
  if (!groups.empty()) agreement.refuse(groups, statement);
}

std::vector<std::string> hear_all(comm::Store& store, int rank, std::span<const int> speakers,
                                  const std::string& what, const std::string& word,
                                  comm::Milliseconds timeout) {
  const std::string prefix = fmt::format("agreement {} {}", next_count(store, rank), what);
  const auto key = [&](int speaker) { return fmt::format("{}/word/{}", prefix, speaker); };
  if (std::find(speakers.begin(), speakers.end(), rank) != speakers.end()) {
    store.set(key(rank), word);
  }
  std::vector<std::string> words;
  for (const int speaker : speakers) {
    words.push_back(heard(store, key(speaker), rank, speaker, prefix, timeout));
  }
  return words;
}

std::vector<Word> distinct_words(comm::Store& store, int rank, int size, const std::string& what,
                                 const std::string& word, comm::Milliseconds timeout) {
  if (size == 1) return {{word}};
  const int64_t count = next_count(store, rank);
  const Groups groups = Agreement(store, all_ranks(size), rank, count, what, timeout).collect(word);
  if (groups.empty()) return {{word}};
  std::vector<Word> words;
  for (const auto& [each, group] : groups) words.push_back({each, ranks_text(group)});
  return words;
}

}  // namespace monograph::session
