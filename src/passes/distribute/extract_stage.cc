#include "passes/distribute/extract_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "analysis/liveness.h"
#include "base/error.h"
#include "ir/mesh.h"
#include "ops/builder.h"

namespace monograph::passes {
namespace {

using analysis::Frame;
using ir::Node;
using ir::Value;
using Kind = StageHome::Kind;

class StageExtraction {
 public:
  StageExtraction(std::unique_ptr<ir::Graph> graph, const PipelineRequest& request,
                  PassContext& context)
      : before_(std::move(graph)),
        after_(std::make_unique<ir::Graph>(before_->name())),
        build_(*after_),
        context_(context),
        pipeline_(request.pipeline),
        rank_(request.rank),
        homes_(*before_, request) {
    number_slots();
  }

  analysis::PipelineReport report() const { return homes_.report(); }

  std::unique_ptr<ir::Graph> run() {
    for (const Value root : before_->roots()) roots_.insert(root);
    for (const auto& output : before_->outputs()) outputs_.push_back(output);
    for (const auto& update : before_->updates()) updates_.push_back(update);
    taken_ = before_->take_nodes();
    for (auto& node : taken_) {
      if (node->is("input")) append(node->id());  // whoever runs the step gives all of them
    }
    collect_slots();
    emit_frames();
    emit_end();
    finish();
    return std::move(after_);
  }

 private:
  // A send or recv, and before which slot it begins at the latest.
  struct LaneCall {
    const StageTransfer* transfer;
    int slot;
  };

  bool is_here(const Frame& frame) const { return homes_.rank_of(frame) == rank_; }
  const StageHome& home(Value value) const { return homes_.of(*value.node); }

  // The last stage's forward and backward of a micro-batch follow each other: they are one slot,
  // for no wall need keep them apart.
  void number_slots() {
    const Frame* before = nullptr;
    for (const Frame& frame : homes_.orders()[rank_]) {
      const bool goes_on = before != nullptr && frame.stage == pipeline_.num_stages() - 1 &&
                           before->kind == Frame::Kind::kForward &&
                           frame.kind == Frame::Kind::kBackward && before->stage == frame.stage &&
                           before->micro_batch == frame.micro_batch;
      if (!goes_on) ++num_slots_;
      slots_[frame] = num_slots_ - 1;
      before = &frame;
    }
  }

  // The last slot in which a part of the sum is made here; -1: none is.
  int slot_of(Value value) const {
    const StageHome& at = home(value);
    if (at.is(Kind::kFrame)) return is_here(at.frame) ? slots_.at(at.frame) : -1;
    if (!at.is(Kind::kSummands)) return -1;
    const auto known = slots_of_sums_.find(value);
    return known == slots_of_sums_.end() ? -1 : known->second;
  }

  void collect_slots() {
    nodes_of_slot_.resize(num_slots_);
    for (const auto& node : taken_) {
      if (node == nullptr) continue;
      const StageHome& at = homes_.of(*node);
      if (at.is(Kind::kSummands)) {
        int last = -1;
        for (const Value operand : node->operands()) last = std::max(last, slot_of(operand));
        slots_of_sums_[node->result()] = last;
        if (last >= 0) nodes_of_slot_[last].push_back(node->id());
      } else if (at.is(Kind::kFrame) && is_here(at.frame)) {
        nodes_of_slot_[slots_.at(at.frame)].push_back(node->id());
      }
    }
  }

  // Each call as late as those behind it on the lane let it be.
  std::vector<LaneCall> lane_calls() const {
    std::vector<LaneCall> calls;
    for (const StageTransfer& transfer : homes_.transfers()) {
      if (transfer.from_rank == rank_) {
        calls.push_back({&transfer, slots_.at(transfer.from) + 1});
      } else if (transfer.to_rank == rank_) {
        calls.push_back({&transfer, slots_.at(transfer.to)});
      }
    }
    int latest = std::numeric_limits<int>::max();
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
      const bool is_send = call->transfer->from_rank == rank_;
      check(!is_send || call->slot <= latest, "a send of {} comes too late",
            to_text(call->transfer->from));
      call->slot = latest = std::min(call->slot, latest);
    }
    return calls;
  }

  void emit_frames() {
    const std::vector<LaneCall> calls = lane_calls();
    auto call = calls.begin();
    for (int slot = 0; slot <= num_slots_; ++slot) {
      for (; call != calls.end() && call->slot == slot; ++call) exchange(*call->transfer);
      if (slot == num_slots_) break;
      ++frame_;
      std::sort(nodes_of_slot_[slot].begin(), nodes_of_slot_[slot].end());
      for (const int id : nodes_of_slot_[slot]) emit_in_frame(id);
    }
    ++frame_;
  }

  void exchange(const StageTransfer& transfer) {
    const bool is_forward = transfer.from.kind == Frame::Kind::kForward;
    // Several values of one frame have one name: they come in order.
    const std::string tag =
        fmt::format("{} {}, {} to {}", is_forward ? "forward" : "backward",
                    transfer.from.micro_batch, transfer.from.stage, transfer.to.stage);
    enter(*transfer.value.node);
    if (transfer.from_rank == rank_) {
      send(local(transfer.value), transfer.to_rank, tag);
    } else {
      local_[transfer.value] = recv(transfer.value.type(), transfer.from_rank, tag);
    }
  }

  void enter(const Node& node) {
    build_.set_phase(node.phase());
    ir::Provenance place = node.provenance();
    place.frame = frame_;
    build_.set_provenance(std::move(place));
  }

  // What begins on the lane has a frame of its own.
  ir::Attributes enter_transfer(int peer, const std::string& tag) {
    ++frame_;
    enter_frame();
    return {{"axis", std::string(ir::kPipelineAxis)},
            {"size", int64_t{pipeline_.num_ranks}},
            {"peer", int64_t{peer}},
            {"tag", tag}};
  }

  void enter_frame() { build_.set_provenance({"", 0, "pipeline", frame_}); }

  void send(Value value, int to, const std::string& tag) {
    Node* node = build_.emit_node("send", {value}, enter_transfer(to, tag));
    context_.remark(*node, fmt::format("{}: rank {} of '{}' reads it, {} bytes", tag, to,
                                       ir::kPipelineAxis, value.type().num_bytes()));
    sent_.push_back(node->result());
  }

  Value recv(const ir::TensorType& type, int from, const std::string& tag) {
    ir::Attributes attributes = enter_transfer(from, tag);
    attributes["shape"] = type.shape.dims();
    attributes["dtype"] = type.dtype;
    const Value begin = build_.scalar(ir::DType::kF32, 0);
    return build_.emit("recv", {begin}, std::move(attributes));
  }

  void append(int id) {
    std::unique_ptr<Node>& node = taken_[id];
    ir::Provenance place = node->provenance();
    place.frame = node->is_placeholder() ? 0 : frame_;
    node->set_provenance(std::move(place));
    emitted_.insert(node.get());
    after_->append(std::move(node));
  }

  // The node, of which this rank has all operands.
  void emit(int id) {
    Node& node = *taken_[id];
    for (int i = 0; i < node.num_operands(); ++i) node.set_operand(i, local(node.operand(i)));
    append(id);
  }

  void emit_in_frame(int id) {
    Node& node = *taken_[id];
    if (!homes_.of(node).is(Kind::kSummands)) return emit(id);
    own_[node.result()] = own_of(node);
  }

  // Of what this rank has of its operands.
  Value own_of(Node& node) {
    std::vector<Value> operands;
    for (const Value operand : node.operands()) {
      if (const Value mine = own(operand)) operands.push_back(mine);
    }
    if (operands.empty() || (node.num_operands() > 1 && operands.size() == 1)) {
      return operands.empty() ? Value() : operands[0];
    }
    enter(node);
    return build_.emit(node.op(), std::move(operands), node.attributes());
  }

  // This rank's part of a sum over ranks; nothing: it has none.
  Value own(Value value) {
    const StageHome& at = home(value);
    if (at.is(Kind::kSummands) || at.is(Kind::kEndSummands)) {
      const auto found = own_.find(value);
      if (found != own_.end()) return found->second;
      return own_[value] = own_of(*value.node);
    }
    if (at.is(Kind::kFrame)) return is_here(at.frame) ? local(value) : Value();
    // Of what several ranks have, the first counts it.
    const bool counts = at.ranks.empty() ? rank_ == 0 : at.ranks.front() == rank_;
    return counts ? local(value) : Value();
  }

  // The value as this rank has it.
  Value local(Value value) {
    const auto found = local_.find(value);
    if (found != local_.end()) return found->second;
    if (emitted_.contains(value.node)) return value;
    const StageHome& at = home(value);
    if (at.is(Kind::kSummands)) return local_[value] = complete(value, at);
    check(at.is(Kind::kAnywhere), "rank {} of a pipeline has no '{}' of {}", rank_,
          value.node->op(), to_text(at.frame));
    emit(value.node->id());
    return value;
  }

  // The ranks that have the parameter send each other their parts, one after the other; all add
  // them in one order, so that their copies stay equal.
  Value complete(Value value, const StageHome& at) {
    const Value mine = own(value);
    Value sum;
    for (const int from : at.ranks) {
      const std::string tag = fmt::format("shared gradient {}", num_shared_);
      build_.set_phase(value.node->phase());
      Value part = mine;
      for (const int to : at.ranks) {
        if (to == from) continue;
        if (from == rank_) send(mine, to, tag);
        if (to == rank_) part = recv(value.type(), from, tag);
      }
      parts_.push_back(part);
    }
    ++frame_;
    ++num_shared_;
    enter(*value.node);
    for (const Value part : parts_) sum = sum ? build_.add(sum, part) : part;
    parts_.clear();
    return sum;
  }

  void emit_end() {
    for (size_t id = 0; id < taken_.size(); ++id) {
      if (taken_[id] == nullptr) continue;
      const StageHome& at = homes_.of(*taken_[id]);
      if (at.is(Kind::kEnd) && at.is_on(rank_)) emit(static_cast<int>(id));
      if (at.is(Kind::kEndSummands) && is_complete(*taken_[id])) add_up(*taken_[id]);
    }
  }

  // Whether others than sums read it: of these, all ranks need the whole.
  bool is_complete(Node& sum) const {
    if (roots_.contains(sum.result())) return true;
    const auto users = homes_.users().find(sum.result());
    return users != homes_.users().end() &&
           std::any_of(users->second.begin(), users->second.end(),
                       [&](const Node* user) { return !homes_.of(*user).is(Kind::kEndSummands); });
  }

  void add_up(Node& sum) {
    Value mine = own(sum.result());
    ++frame_;
    enter(sum);
    if (!mine) mine = build_.full(sum.types()[0], 0);
    Node* node = build_.emit_node("all_reduce", {mine},
                                  {{"axis", std::string(ir::kPipelineAxis)},
                                   {"size", int64_t{pipeline_.num_ranks}},
                                   {"op", std::string("sum")}});
    context_.remark(*node, "each stage has summed up its own parameters");
    local_[sum.result()] = node->result();
    ++frame_;
  }

  void finish() {
    for (const auto& update : updates_) {
      if (homes_.of(*update.state).is_on(rank_)) {
        const Value next = local(update.next);
        after_->set_update(local(update.state->result()).node, next);
      }
    }
    std::vector<Value> results;
    for (const auto& output : outputs_) results.push_back(everywhere(output.value));
    // What was sent is read by others: the step ends when all of it is.
    if (!sent_.empty()) {
      check(!results.empty(), "a step of a pipeline returns something");
      std::vector<Value> operands = {results[0]};
      operands.insert(operands.end(), sent_.begin(), sent_.end());
      ++frame_;
      enter_frame();
      results[0] = build_.emit("after", operands);
    }
    for (size_t i = 0; i < results.size(); ++i) after_->add_output(outputs_[i].name, results[i]);
    const auto live = analysis::live_nodes(*after_);
    after_->erase_if([&](const Node& node) { return !live.contains(&node); });
    after_->renumber();
  }

  // What the step returns is on all ranks.
  Value everywhere(Value value) {
    const StageHome& at = home(value);
    if (at.ranks.empty() || at.is(Kind::kEndSummands)) return local(value);
    const int root = at.ranks.front();
    build_.set_phase(ir::Phase::kOptimizer);
    Value mine;
    if (at.is_on(rank_)) mine = local(value);
    ++frame_;
    enter_frame();
    if (!mine || rank_ != root) mine = build_.full(value.type(), 0);
    const Value any_place = build_.scalar(ir::DType::kI64, 0);  // gradients alone would read it
    return build_.emit("broadcast", {mine, any_place},
                       {{"axis", std::string(ir::kPipelineAxis)},
                        {"size", int64_t{pipeline_.num_ranks}},
                        {"root", int64_t{root}}});
  }

  std::unique_ptr<ir::Graph> before_, after_;
  ops::Builder build_;
  PassContext& context_;
  const ir::Pipeline& pipeline_;
  const int rank_;
  const StageHomes homes_;
  std::vector<ir::Graph::Output> outputs_;
  std::vector<ir::Graph::Update> updates_;
  std::vector<std::unique_ptr<Node>> taken_;  // by id; null: it stands in the stage's graph
  std::unordered_set<const Node*> emitted_;
  std::map<Frame, int> slots_;
  int num_slots_ = 0;
  std::vector<std::vector<int>> nodes_of_slot_;
  ir::ValueMap<int> slots_of_sums_;
  int frame_ = 0;
  int num_shared_ = 0;
  ir::ValueMap<Value> local_, own_;
  std::vector<Value> sent_, parts_;
  ir::ValueSet roots_;  // of the whole step
};

}  // namespace

std::unique_ptr<ir::Graph> extract_stage(std::unique_ptr<ir::Graph> graph,
                                         const PipelineRequest& request, PassContext& context,
                                         analysis::PipelineReport* report) {
  context.set_pass("extract_stage");
  graph->renumber();
  StageExtraction extraction(std::move(graph), request, context);
  if (report != nullptr) *report = extraction.report();
  return extraction.run();
}

}  // namespace monograph::passes
