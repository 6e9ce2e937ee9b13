#include "passes/distribute/stage_homes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/error.h"
#include "ir/mesh.h"
#include "ops/registry.h"

namespace monograph::passes {
namespace {

using analysis::Frame;
using ir::Node;
using ir::Phase;
using ir::Value;
using Ranks = std::vector<int>;

constexpr double kFlopsPerByte = 16;  // what a core does while it moves a byte

bool contains(const Ranks& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

std::string place_text(const Node& node) {
  return fmt::format("'{}' at {}:{}{}{}", node.op(), node.provenance().file, node.provenance().line,
                     node.provenance().scope.empty() ? "" : " in ", node.provenance().scope);
}

bool is_within(std::string_view scope, std::string_view module) {
  return scope.starts_with(module) &&
         (scope.size() == module.size() || scope[module.size()] == '.');
}

// What is done to each summand as to the sum.
bool is_linear(const Node& node) {
  return node.is("add") || node.is("convert") || node.is("reshape") || node.is("permute");
}

}  // namespace

bool StageHome::is_on(int rank) const {
  return ranks.empty() || contains(ranks, rank);
}

StageHomes::StageHomes(const ir::Graph& graph, const PipelineRequest& request)
    : graph_(graph),
      request_(request),
      pipeline_(request.pipeline),
      users_(ir::users_of(graph)),
      homes_(graph.num_nodes()) {
  find_parts();
  find_sums();
  for (const auto& node : graph.nodes()) {
    homes_[node->id()] = place(*node);
    check_state(*node);
  }
  check_updates();
  if (has_backward_ && pipeline_.splits_backward()) split_backward();
  for (const auto& node : graph.nodes()) {
    const StageHome& home = of(*node);
    if (!home.is(Kind::kFrame) || ops::has_trait(*node, ops::kViewLike)) continue;
    const ops::Cost cost = ops::cost_of(*node);
    costs_[home.frame] += cost.flops / kFlopsPerByte + cost.bytes;
  }
  orders_ = has_backward_ ? analysis::training_frames(pipeline_)
                          : analysis::forward_frames(pipeline_, std::max(num_parts_, 1));
  find_transfers();
}

int StageHomes::layer_of(const Node& node) const {
  const std::string& scope = node.provenance().scope;
  for (size_t layer = 0; layer < pipeline_.layers.size(); ++layer) {
    if (is_within(scope, pipeline_.layers[layer])) return static_cast<int>(layer);
  }
  return -1;
}

void StageHomes::find_parts() {
  for (const auto& node : graph_.nodes()) {
    has_backward_ = has_backward_ || node->phase() == Phase::kBackward;
    num_parts_ = std::max(num_parts_, request_.part_of(*node) + 1);
  }
  if (!has_backward_ || std::max(num_parts_, 1) == pipeline_.num_micro_batches) return;
  throw_user_error(
      "the pipeline has {} micro-batches, the step {}: trace it with trace::accumulate({}, ...)",
      pipeline_.num_micro_batches, std::max(num_parts_, 1), pipeline_.num_micro_batches);
}

// Sums, perhaps converted, that only such and the end of the step read: of gradients of parameters.
void StageHomes::find_sums() {
  only_summed_.assign(graph_.num_nodes(), 0);
  const auto& nodes = graph_.nodes();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    Node& node = **it;
    if (!is_linear(node) || node.phase() != Phase::kBackward) continue;
    const auto users = users_.find(node.result());
    only_summed_[node.id()] =
        users == users_.end() ||
        std::all_of(users->second.begin(), users->second.end(), [&](const Node* user) {
          const bool is_outside = num_parts_ > 0 && request_.part_of(*user) < 0;
          return user->phase() == Phase::kOptimizer || is_outside || only_summed_[user->id()];
        });
  }
}

// By its layer, else by what it reads: forward behind it, backward before it. -1: of no stage.
int StageHomes::stage_of(const Node& node) const {
  int forward = -1, backward = pipeline_.num_stages();
  for (const Value operand : node.operands()) {
    const StageHome& home = of(*operand.node);
    if (!home.is(Kind::kFrame)) continue;
    forward = std::max(forward, home.frame.stage);
    if (operand.node->phase() == Phase::kBackward) backward = std::min(backward, home.frame.stage);
  }
  const int layer = layer_of(node);
  if (layer >= 0) {
    const int stage = pipeline_.stage_of_layer[layer];
    if (node.phase() == Phase::kForward && forward > stage) {
      throw_user_error(
          "{}, a layer of stage {}, reads what stage {} makes: a pipeline runs layers in the order "
          "in which they stand in their list",
          place_text(node), stage, forward);
    }
    return stage;
  }
  return node.phase() == Phase::kBackward && backward < pipeline_.num_stages() ? backward : forward;
}

StageHome StageHomes::place(const Node& node) const {
  if (node.is_placeholder()) {
    const auto found = request_.ranks_of_states.find(node.name());
    return {Kind::kAnywhere, {}, found == request_.ranks_of_states.end() ? Ranks() : found->second};
  }
  const bool reads_end =
      std::any_of(node.operands().begin(), node.operands().end(), [&](Value operand) {
        const StageHome& home = of(*operand.node);
        return !home.is(Kind::kAnywhere) && !home.is(Kind::kFrame);
      });
  const int part = num_parts_ == 0 ? 0 : request_.part_of(node);
  std::set<int> ranks;  // of frames and sums
  bool is_staged = layer_of(node) >= 0;
  for (const Value operand : node.operands()) {
    const StageHome& home = of(*operand.node);
    if (home.is(Kind::kFrame)) ranks.insert(rank_of(home.frame));
    if (home.is(Kind::kSummands)) ranks.insert(home.ranks.begin(), home.ranks.end());
    is_staged = is_staged || home.is(Kind::kFrame);
  }
  const bool is_end_read =
      std::any_of(node.operands().begin(), node.operands().end(), [&](Value operand) {
        return of(*operand.node).is(Kind::kEnd) || of(*operand.node).is(Kind::kEndSummands);
      });
  if (only_summed_[node.id()] && !is_end_read && ranks.size() > 1) {
    return {Kind::kSummands, {}, Ranks(ranks.begin(), ranks.end())};
  }
  if (node.phase() == Phase::kOptimizer || reads_end || (is_staged && part < 0)) {
    return place_at_end(node);
  }
  if (!is_staged) {
    return {Kind::kAnywhere, {}, ranks_of_all(node)};
  }
  const auto kind =
      node.phase() == Phase::kBackward ? Frame::Kind::kBackward : Frame::Kind::kForward;
  const Frame frame = {kind, stage_of(node), part};
  return {Kind::kFrame, frame, {rank_of(frame)}};
}

// Of states and values at the end; `mixes`: they are not all on the same ranks.
Ranks StageHomes::ranks_read(const Node& node, bool& mixes) const {
  Ranks ranks;
  for (const Value operand : node.operands()) {
    const StageHome& home = of(*operand.node);
    if (home.is(Kind::kEndSummands) || home.ranks.empty()) continue;
    mixes = mixes || (!ranks.empty() && ranks != home.ranks);
    ranks = home.ranks;
  }
  return ranks;
}

// The ranks that have everything that the node reads.
Ranks StageHomes::ranks_of_all(const Node& node) const {
  Ranks ranks;
  for (const Value operand : node.operands()) {
    const StageHome& home = of(*operand.node);
    if (home.ranks.empty()) continue;
    if (ranks.empty()) ranks = home.ranks;
    std::erase_if(ranks, [&](int rank) { return !contains(home.ranks, rank); });
    if (ranks.empty()) refuse_mixture(node);
  }
  return ranks;
}

void StageHomes::refuse_mixture(const Node& node) {
  throw_user_error(
      "{} reads states of several stages of a pipeline: an optimizer may add up numbers of them, "
      "as "
      "for the norm of gradients, and must do all else apart",
      place_text(node));
}

StageHome StageHomes::place_at_end(const Node& node) const {
  bool mixes = false;
  const Ranks ranks = ranks_read(node, mixes);
  const bool has_summands =
      std::any_of(node.operands().begin(), node.operands().end(),
                  [&](Value operand) { return of(*operand.node).is(Kind::kEndSummands); });
  const bool is_sum = node.is("add") && node.types()[0].num_elements() == 1;
  if (is_sum && (mixes || (has_summands && !ranks.empty()))) return {Kind::kEndSummands, {}, {}};
  if (mixes) refuse_mixture(node);
  return {Kind::kEnd, {}, ranks};
}

void StageHomes::check_state(const Node& node) const {
  const StageHome& home = of(node);
  if (!home.is(Kind::kFrame)) return;
  for (const Value operand : node.operands()) {
    const StageHome& read = of(*operand.node);
    if (!read.is(Kind::kAnywhere) || read.is_on(rank_of(home.frame))) continue;
    throw_user_error(
        "{}, of stage {}, reads a parameter that is on rank {} of axis '{}': name it among the "
        "shared ones of nn::pipeline",
        place_text(node), home.frame.stage, fmt::join(read.ranks, ", "), ir::kPipelineAxis);
  }
}

void StageHomes::check_updates() const {
  for (const auto& update : graph_.updates()) {
    const StageHome& state = of(*update.state);
    const StageHome& next = of(*update.next.node);
    const bool is_everywhere = next.ranks.empty() || next.is(Kind::kEndSummands);
    if (!next.is(Kind::kFrame) && (is_everywhere || next.ranks == state.ranks)) continue;
    throw_user_error(
        "state '{}' is updated by {}, which is not on all ranks that have it: in a pipeline the "
        "optimizer alone changes states",
        update.state->name(), place_text(*update.next.node));
  }
}

// What no earlier stage's gradient needs can wait.
void StageHomes::split_backward() {
  std::vector<char> is_needed(graph_.num_nodes(), 0);
  const auto& nodes = graph_.nodes();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    Node& node = **it;
    StageHome& home = homes_[node.id()];
    if (!home.is(Kind::kFrame) || home.frame.kind != Frame::Kind::kBackward) continue;
    for (int i = 0; i < node.num_results(); ++i) {
      const auto users = users_.find(node.result(i));
      if (users == users_.end()) continue;
      for (const Node* user : users->second) {
        const StageHome& reader = of(*user);
        if (!reader.is(Kind::kFrame)) continue;
        const bool is_sent = reader.frame.stage != home.frame.stage;
        is_needed[node.id()] |= static_cast<char>(is_sent || is_needed[user->id()] != 0);
      }
    }
    const bool waits = is_needed[node.id()] == 0 && home.frame.stage > 0;
    if (waits) home.frame.kind = Frame::Kind::kWeights;
  }
}

void StageHomes::find_transfers() {
  std::map<Frame, int> place;  // in its rank's order
  for (const auto& order : orders_) {
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int>(i);
  }
  for (const auto& node : graph_.nodes()) {
    const StageHome& home = of(*node);
    if (!home.is(Kind::kFrame)) continue;
    for (int i = 0; i < node->num_results(); ++i) {
      std::map<int, Frame> readers;  // by rank, the first
      const auto users = users_.find(node->result(i));
      if (users == users_.end()) continue;
      for (const Node* user : users->second) {
        const StageHome& reader = of(*user);
        if (!reader.is(Kind::kFrame) || rank_of(reader.frame) == rank_of(home.frame)) continue;
        const auto [found, is_new] = readers.emplace(rank_of(reader.frame), reader.frame);
        if (!is_new && place.at(reader.frame) < place.at(found->second)) {
          found->second = reader.frame;
        }
      }
      for (const auto& [rank, frame] : readers) {
        transfers_.push_back({node->result(i), home.frame, frame, rank_of(home.frame), rank});
      }
    }
  }
  const auto times = analysis::play(pipeline_, orders_, [&](const Frame& frame) {
    return analysis::equal_cost(pipeline_, frame);
  });
  check(times.has_value(), "the frames of a pipeline wait for each other");
  const auto end_of = [&](const StageTransfer& transfer) {
    return times->end[transfer.from_rank][place.at(transfer.from)];
  };
  std::stable_sort(transfers_.begin(), transfers_.end(), [&](const auto& a, const auto& b) {
    return std::tuple(end_of(a), a.from) < std::tuple(end_of(b), b.from);
  });
}

double StageHomes::cost_of(const Frame& frame) const {
  const auto found = costs_.find(frame);
  return found == costs_.end() ? 0 : found->second;
}

analysis::PipelineReport StageHomes::report() const {
  analysis::PipelineReport report{pipeline_, {}};
  report.stages.resize(pipeline_.num_stages());
  double total = 0;
  for (const auto& [frame, cost] : costs_) {
    report.stages[frame.stage].work_share += cost;
    total += cost;
  }
  for (size_t layer = 0; layer < pipeline_.layers.size(); ++layer) {
    std::string& layers = report.stages[pipeline_.stage_of_layer[layer]].layers;
    const std::string& name = pipeline_.layers[layer];
    layers = layers.empty() ? name : layers.substr(0, layers.find(" ..")) + " .. " + name;
  }
  for (auto& stage : report.stages) stage.work_share /= std::max(total, 1.0);
  report.parameters.resize(pipeline_.num_ranks);
  for (const Node* state : graph_.states()) {
    if (state->attribute<std::string>("role") != "parameter") continue;
    for (const int rank : of(*state).ranks) {
      report.parameters[rank] += state->types()[0].num_elements();
    }
  }
  const auto bubble = [&](const std::function<double(const Frame&)>& cost) {
    const auto times = analysis::play(pipeline_, orders_, cost);
    return times ? times->bubble_share : 0;
  };
  report.bubble_share = bubble([&](const Frame& frame) { return cost_of(frame); });
  report.equal_bubble_share =
      bubble([&](const Frame& frame) { return analysis::equal_cost(pipeline_, frame); });
  return report;
}

}  // namespace monograph::passes
