#include "diagnose/hang/wait_for.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace monograph::diagnose {
namespace {

struct Standing {
  int64_t entered = -1;  // highest collective issued; -1 is unknown
  const Call* first_pending = nullptr;
  int64_t pending_sequence = -1;  // also known from status alone
  bool tracks_starts = false;     // this rank's dump can tell started from scheduled
  std::map<int64_t, const Call*> pending;
};

// In a group with point-to-point calls the status numbers count those, which do not compare between
// ranks.
std::set<std::string> groups_with_pairs(const Progress& progress) {
  std::set<std::string> mixed;
  for (const auto& [rank, record] : progress.ranks) {
    for (const Call& call : record.calls) {
      if (call.is_p2p) mixed.insert(call.group);
    }
  }
  return mixed;
}

Standing standing_of(const RankProgress& record, const std::string& group, bool mixed) {
  Standing standing;
  bool has_calls = false;
  for (const Call& call : record.calls) {
    if (call.state != CallState::kScheduled) standing.tracks_starts = true;
    if (call.group != group || call.is_p2p) continue;
    has_calls = true;
    standing.entered = std::max(standing.entered, call.sequence);
    if (!call.pending) continue;
    standing.pending[call.sequence] = &call;
    if (standing.first_pending == nullptr || call.sequence < standing.first_pending->sequence) {
      standing.first_pending = &call;
      standing.pending_sequence = call.sequence;
    }
  }
  auto status = record.groups.find(group);
  if (status != record.groups.end() && !mixed) {
    const GroupStatus& known = status->second;
    standing.entered = std::max(standing.entered, known.enqueued);
    standing.tracks_starts = standing.tracks_starts || known.started > 0;
    if (!has_calls && known.completed >= 0 && known.enqueued > known.completed) {
      standing.pending_sequence = known.completed + 1;
    }
  }
  if (standing.entered < 0 && record.is_complete && !mixed) standing.entered = 0;
  return standing;
}

class EdgeFinder {
 public:
  explicit EdgeFinder(const Progress& progress) : progress_(progress) {}

  std::vector<WaitEdge> find() {
    std::set<std::string> mixed = groups_with_pairs(progress_);
    for (const auto& [key, group] : progress_.groups) {
      std::vector<int> members = members_of(progress_, key);
      std::map<int, Standing> standings;
      for (int rank : members) {
        auto record = progress_.ranks.find(rank);
        if (record != progress_.ranks.end()) {
          standings[rank] = standing_of(record->second, key, mixed.contains(key));
        }
      }
      for (const auto& [rank, standing] : standings) {
        if (standing.pending_sequence >= 0) add_collective(key, rank, standing, members, standings);
      }
    }
    add_pairs();
    return std::move(edges_);
  }

 private:
  void add_collective(const std::string& group, int rank, const Standing& waiter,
                      const std::vector<int>& members, const std::map<int, Standing>& standings) {
    int64_t sequence = waiter.pending_sequence;
    std::string op = waiter.first_pending != nullptr ? waiter.first_pending->op : "";
    int64_t created = waiter.first_pending != nullptr ? waiter.first_pending->created_ns : 0;
    size_t before = edges_.size();
    std::vector<int> unknown;
    for (int other : members) {
      if (other == rank) continue;
      auto found = standings.find(other);
      if (found == standings.end() || found->second.entered < 0) {
        unknown.push_back(other);
      } else if (found->second.entered < sequence) {
        edges_.push_back({rank, other, WaitEdge::Why::kNotEntered, group, sequence, op, created,
                          found->second.entered});
      } else if (waits_on_device(waiter, found->second, sequence)) {
        edges_.push_back({rank, other, WaitEdge::Why::kNotStarted, group, sequence, op, created,
                          found->second.entered});
      }
    }
    if (edges_.size() != before) return;
    for (int other : unknown) {
      edges_.push_back({rank, other, WaitEdge::Why::kNoRecord, group, sequence, op, created, -1});
    }
  }

  static bool waits_on_device(const Standing& waiter, const Standing& other, int64_t sequence) {
    if (waiter.first_pending == nullptr || waiter.first_pending->state != CallState::kStarted)
      return false;
    auto call = other.pending.find(sequence);
    return call != other.pending.end() && call->second->state == CallState::kScheduled &&
           other.tracks_starts;
  }

  // A send without the receive on the other side, or the other way round.
  void add_pairs() {
    using Pair = std::tuple<std::string, int, int>;  // group, source, destination
    std::map<Pair, std::pair<std::vector<const Call*>, std::vector<const Call*>>> pairs;
    for (const auto& [rank, record] : progress_.ranks) {
      for (const Call& call : record.calls) {
        if (!call.is_p2p || !call.pending || call.source < 0 || call.destination < 0) continue;
        auto& [sends, receives] = pairs[{call.group, call.source, call.destination}];
        (call.op == "send" ? sends : receives).push_back(&call);
      }
    }
    for (const auto& [key, both] : pairs) {
      const auto& [group, source, destination] = key;
      const auto& [sends, receives] = both;
      if (sends.size() == receives.size()) continue;
      bool receiver_late = sends.size() > receives.size();
      const Call* call = receiver_late ? sends[receives.size()] : receives[sends.size()];
      int waiter = receiver_late ? source : destination;
      int other = receiver_late ? destination : source;
      bool known = progress_.ranks.contains(other);
      edges_.push_back({waiter, other,
                        known ? WaitEdge::Why::kNotEntered : WaitEdge::Why::kNoRecord, group,
                        call->sequence, call->op, call->created_ns, -1});
    }
  }

  const Progress& progress_;
  std::vector<WaitEdge> edges_;
};

// Tarjan's strongly connected components over the ranks.
class Components {
 public:
  explicit Components(const std::vector<WaitEdge>& edges) {
    for (const WaitEdge& edge : edges) {
      out_[edge.waiter].insert(edge.waited_on);
      out_[edge.waited_on];
    }
    for (const auto& [rank, targets] : out_) {
      if (!index_.contains(rank)) visit(rank);
    }
  }

  const std::vector<std::vector<int>>& all() const { return components_; }

  bool is_sink(const std::vector<int>& component) const {
    for (int rank : component) {
      for (int target : out_.at(rank)) {
        if (component_.at(target) != component_.at(rank)) return false;
      }
    }
    return true;
  }

 private:
  // With an explicit stack: a chain of ranks may be as long as the job is large.
  void visit(int root) {
    struct Frame {
      int rank;
      std::set<int>::const_iterator next;
    };
    std::vector<Frame> frames;
    auto open = [&](int rank) {
      index_[rank] = low_[rank] = static_cast<int>(index_.size());
      stack_.push_back(rank);
      on_stack_.insert(rank);
      frames.push_back({rank, out_[rank].begin()});
    };
    open(root);
    while (!frames.empty()) {
      Frame& frame = frames.back();
      int rank = frame.rank;
      if (frame.next != out_[rank].end()) {
        int target = *frame.next++;
        if (!index_.contains(target)) {
          open(target);
        } else if (on_stack_.contains(target)) {
          low_[rank] = std::min(low_[rank], index_[target]);
        }
        continue;
      }
      frames.pop_back();
      if (!frames.empty())
        low_[frames.back().rank] = std::min(low_[frames.back().rank], low_[rank]);
      if (low_[rank] == index_[rank]) close(rank);
    }
  }

  void close(int root) {
    std::vector<int> component;
    int rank = -1;
    do {
      rank = stack_.back();
      stack_.pop_back();
      on_stack_.erase(rank);
      component_[rank] = static_cast<int>(components_.size());
      component.push_back(rank);
    } while (rank != root);
    std::sort(component.begin(), component.end());
    components_.push_back(std::move(component));
  }

  std::map<int, std::set<int>> out_;
  std::map<int, int> index_;
  std::map<int, int> low_;
  std::vector<int> stack_;
  std::set<int> on_stack_;
  std::map<int, int> component_;
  std::vector<std::vector<int>> components_;
};

WaitSinks sinks_of(const std::vector<WaitEdge>& edges) {
  Components components(edges);
  WaitSinks sinks;
  for (const std::vector<int>& component : components.all()) {
    if (!components.is_sink(component)) continue;
    if (component.size() == 1) {
      sinks.ranks.insert(component.front());
    } else {
      sinks.cycles.push_back(component);
    }
  }
  return sinks;
}

}  // namespace

std::vector<int> members_of(const Progress& progress, const std::string& group) {
  auto known = progress.groups.find(group);
  if (known != progress.groups.end() && !known->second.ranks.empty()) return known->second.ranks;
  std::set<int> members;
  for (const auto& [rank, record] : progress.ranks) {
    bool in_status = record.groups.contains(group);
    bool in_calls = std::any_of(record.calls.begin(), record.calls.end(),
                                [&](const Call& call) { return call.group == group; });
    if (in_status || in_calls) members.insert(rank);
  }
  bool is_default = known != progress.groups.end() && known->second.description == "default_pg";
  if (is_default && !progress.ranks_seen.empty()) {
    int last = std::max(progress.world_size - 1, *progress.ranks_seen.rbegin());
    int first = *progress.ranks_seen.begin();
    // The log of one host of many holds one block of ranks; otherwise the first ranks may be the
    // silent ones.
    bool is_block = first > 0 && first % static_cast<int>(progress.ranks_seen.size()) == 0;
    for (int rank = is_block && progress.world_size < 0 ? first : 0; rank <= last; ++rank) {
      members.insert(rank);
    }
  }
  return {members.begin(), members.end()};
}

std::vector<WaitEdge> wait_edges(const Progress& progress) {
  return EdgeFinder(progress).find();
}

WaitSinks find_sinks(const std::vector<WaitEdge>& edges) {
  WaitSinks all = sinks_of(edges);
  std::vector<WaitEdge> collectives;
  std::copy_if(edges.begin(), edges.end(), std::back_inserter(collectives),
               [](const WaitEdge& edge) { return edge.op != "send" && edge.op != "recv"; });
  WaitSinks firm = sinks_of(collectives);
  if (firm.ranks.empty()) return all;
  // A rank that is stuck keeps the others of its groups waiting in collectives, so it is among the
  // firm ones; a wait in a pair shows which of them only waits in turn. Pairs that were posted
  // ahead must not lead away from all.
  std::set<int> both;
  std::set_intersection(firm.ranks.begin(), firm.ranks.end(), all.ranks.begin(), all.ranks.end(),
                        std::inserter(both, both.end()));
  return {both.empty() ? std::move(firm.ranks) : std::move(both), {}};
}

}  // namespace monograph::diagnose
