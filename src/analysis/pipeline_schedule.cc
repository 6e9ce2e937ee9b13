#include "analysis/pipeline_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "base/error.h"

namespace monograph::analysis {
namespace {

using Kind = Frame::Kind;
using Schedule = ir::Pipeline::Schedule;

// The k-th forward or backward frame of a rank: micro-batches in groups of as many as there are
// ranks, each group through one of the rank's stages after the other.
Frame frame_at(const ir::Pipeline& pipeline, int rank, Kind kind, int k) {
  const int group = pipeline.num_ranks * pipeline.num_chunks;
  const int within = k % group;
  int chunk = within / pipeline.num_ranks;
  if (kind != Kind::kForward) chunk = pipeline.num_chunks - 1 - chunk;
  return {kind, chunk * pipeline.num_ranks + rank,
          k / group * pipeline.num_ranks + within % pipeline.num_ranks};
}

// Forwards until the first backward can be there, then one of each in turn.
std::vector<Frame> one_by_one(const ir::Pipeline& pipeline, int rank) {
  const int total = pipeline.num_micro_batches * pipeline.num_chunks;
  int lead = pipeline.num_ranks - rank - 1;
  if (pipeline.num_chunks > 1) lead = 2 * lead + (pipeline.num_chunks - 1) * pipeline.num_ranks;
  lead = std::min(lead, total);
  std::vector<Frame> order;
  for (int k = 0; k < total + lead; ++k) {
    if (k < total) order.push_back(frame_at(pipeline, rank, Kind::kForward, k));
    if (k >= lead) order.push_back(frame_at(pipeline, rank, Kind::kBackward, k - lead));
  }
  return order;
}

// What must have ended before the frame, on whatever rank.
std::vector<Frame> needs_of(const ir::Pipeline& pipeline, const Frame& frame) {
  const int last = pipeline.num_stages() - 1;
  const Frame forward = {Kind::kForward, frame.stage, frame.micro_batch};
  switch (frame.kind) {
    case Kind::kForward:
      if (frame.stage == 0) return {};
      return {{Kind::kForward, frame.stage - 1, frame.micro_batch}};
    case Kind::kBackward:
      if (frame.stage == last) return {forward};
      return {forward, {Kind::kBackward, frame.stage + 1, frame.micro_batch}};
    case Kind::kWeights:
      return {{Kind::kBackward, frame.stage, frame.micro_batch}};
  }
  return {};
}

// Handcrafted schedule ZB-H1 of Qi et al., "Zero bubble pipeline parallelism" (2023), found by
// playing it with frames of equal length: forwards and backwards as in 1F1B; a rank that would
// stand still does gradients of weights; and it does them once it holds the activations of as many
// micro-batches as the first rank does in 1F1B.
class ZeroBubble {
 public:
  explicit ZeroBubble(const ir::Pipeline& pipeline) : pipeline_(pipeline) {
    for (int rank = 0; rank < pipeline.num_ranks; ++rank) {
      ranks_.push_back({one_by_one(pipeline, rank)});
    }
  }

  FrameOrders run() {
    while (step()) {
    }
    FrameOrders orders;
    for (Rank& rank : ranks_) {
      check(rank.next == rank.sequence.size() && rank.waiting.empty(),
            "a zero-bubble schedule that does not end");
      orders.push_back(std::move(rank.order));
    }
    return orders;
  }

 private:
  struct Rank {
    std::vector<Frame> sequence;  // forwards and backwards
    size_t next = 0;
    std::deque<Frame> waiting = {};  // gradients of weights
    int num_held = 0;                // micro-batches with activations
    double time = 0;
    std::vector<Frame> order = {};
  };

  // Lets the earliest rank that can do something do it.
  bool step() {
    std::vector<Rank*> by_time;
    for (Rank& rank : ranks_) by_time.push_back(&rank);
    std::stable_sort(by_time.begin(), by_time.end(),
                     [](const Rank* a, const Rank* b) { return a->time < b->time; });
    return std::any_of(by_time.begin(), by_time.end(), [&](Rank* rank) { return act(*rank); });
  }

  bool act(Rank& rank) {
    if (rank.next == rank.sequence.size()) return do_weights(rank);
    const Frame& frame = rank.sequence[rank.next];
    const bool is_full = frame.kind == Kind::kForward && rank.num_held >= pipeline_.num_ranks;
    if (is_full && do_weights(rank)) return true;
    const std::optional<double> ready = ready_at(frame);
    if ((!ready || *ready > rank.time) && do_weights(rank)) return true;
    if (!ready) return false;
    rank.time = std::max(rank.time, *ready);
    run(rank, frame);
    ++rank.next;
    return true;
  }

  bool do_weights(Rank& rank) {
    if (rank.waiting.empty()) return false;
    run(rank, rank.waiting.front());
    rank.waiting.pop_front();
    return true;
  }

  std::optional<double> ready_at(const Frame& frame) const {
    double ready = 0;
    for (const Frame& need : needs_of(pipeline_, frame)) {
      const auto found = ends_.find(need);
      if (found == ends_.end()) return std::nullopt;
      ready = std::max(ready, found->second);
    }
    return ready;
  }

  void run(Rank& rank, const Frame& frame) {
    const bool is_whole = frame.kind == Kind::kBackward && frame.stage == 0;
    rank.time += is_whole ? 2 : 1;
    ends_[frame] = rank.time;
    rank.order.push_back(frame);
    if (frame.kind == Kind::kForward) ++rank.num_held;
    if (is_whole || frame.kind == Kind::kWeights) --rank.num_held;
    if (frame.kind == Kind::kBackward && !is_whole) {
      rank.waiting.push_back({Kind::kWeights, frame.stage, frame.micro_batch});
    }
  }

  const ir::Pipeline& pipeline_;
  std::vector<Rank> ranks_;
  std::map<Frame, double> ends_;
};

}  // namespace

std::string to_text(const Frame& frame) {
  constexpr char kLetters[] = {'F', 'B', 'W'};
  return fmt::format("{}{} of stage {}", kLetters[static_cast<int>(frame.kind)], frame.micro_batch,
                     frame.stage);
}

FrameOrders training_frames(const ir::Pipeline& pipeline) {
  if (pipeline.schedule == Schedule::kZeroBubble) return ZeroBubble(pipeline).run();
  FrameOrders orders;
  for (int rank = 0; rank < pipeline.num_ranks; ++rank) {
    orders.push_back(one_by_one(pipeline, rank));
  }
  return orders;
}

FrameOrders forward_frames(const ir::Pipeline& pipeline, int num_micro_batches) {
  FrameOrders orders(pipeline.num_ranks);
  for (int stage = 0; stage < pipeline.num_stages(); ++stage) {
    for (int part = 0; part < num_micro_batches; ++part) {
      orders[pipeline.rank_of(stage)].push_back({Kind::kForward, stage, part});
    }
  }
  return orders;
}

std::optional<FrameTimes> play(const ir::Pipeline& pipeline, const FrameOrders& orders,
                               const std::function<double(const Frame&)>& cost) {
  FrameTimes times{std::vector<std::vector<double>>(orders.size()),
                   std::vector<std::vector<double>>(orders.size())};
  std::map<Frame, double> ends;
  double busy = 0;
  const auto advance = [&](size_t rank) {
    const size_t next = times.end[rank].size();
    if (next == orders[rank].size()) return false;
    const Frame& frame = orders[rank][next];
    double begin = next == 0 ? 0 : times.end[rank].back();
    for (const Frame& need : needs_of(pipeline, frame)) {
      const auto found = ends.find(need);
      if (found == ends.end()) return false;
      begin = std::max(begin, found->second);
    }
    const double length = cost(frame);
    busy += length;
    times.begin[rank].push_back(begin);
    times.end[rank].push_back(ends[frame] = begin + length);
    times.length = std::max(times.length, begin + length);
    return true;
  };
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (size_t rank = 0; rank < orders.size(); ++rank) {
      while (advance(rank)) has_moved = true;
    }
  }
  for (size_t rank = 0; rank < orders.size(); ++rank) {
    if (times.end[rank].size() < orders[rank].size()) return std::nullopt;
  }
  if (times.length > 0) {
    times.bubble_share = 1 - busy / (times.length * static_cast<double>(orders.size()));
  }
  return times;
}

double equal_cost(const ir::Pipeline& pipeline, const Frame& frame) {
  if (frame.kind != Kind::kBackward) return 1;
  return pipeline.splits_backward() && frame.stage > 0 ? 1 : 2;
}

}  // namespace monograph::analysis
