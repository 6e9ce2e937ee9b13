#include "passes/memory/layout.h"

#include <algorithm>

#include "analysis/in_place.h"
#include "analysis/iteration_space.h"
#include "base/error.h"
#include "ops/registry.h"
#include "passes/memory/reads.h"

namespace monograph::passes {
namespace {

using ir::Node;
using ir::Segment;
using ir::Value;

bool is_state_segment(int buffer) {
  return buffer == static_cast<int>(Segment::kWeights) ||
         buffer == static_cast<int>(Segment::kMoments) ||
         buffer == static_cast<int>(Segment::kBuffers);
}

bool is_view(const Node& node) {
  return ops::has_trait(node, ops::kViewLike);
}
// The buckets of gradients, side by side again: their padding must stay zero.
bool joins_buckets(const Node& node) {
  return node.is("cat") && node.operand(0).node->is("all_reduce_done");
}
bool is_product(const Node& node) {
  return node.is("matmul") || node.is("addmm");
}
bool is_attention(const Node& node) {
  return node.is("scaled_dot_product_attention") ||
         node.is("scaled_dot_product_attention_backward");
}
// Other library calls read and write their tensors in order.
bool is_dense_call(const Node& node) {
  return ops::has_trait(node, ops::kLibrary) && !is_product(node) && !is_attention(node);
}

class LayoutPlanner {
 public:
  LayoutPlanner(ir::Graph& graph, StateLayout& states, PassContext& context)
      : graph_(graph), states_(states), context_(context) {
    for (int i = 0; i < ir::kNumSegments; ++i) {
      layout_.buffers.push_back({static_cast<Segment>(i), 0});
    }
  }

  Layout run() {
    graph_.renumber();
    all_states_ = graph_.states();
    StatePlacements placed = place_states(graph_, states_);
    layout_.placements = std::move(placed.states);
    state_packs_ = std::move(placed.packs);
    users_ = ir::users_of(graph_);
    for (Value root : graph_.roots()) roots_.insert(root);
    reads_ = collect_reads(graph_, [&](const Node& node) {
      return ops::has_trait(node, ops::kStart) || state_packs_.contains(&node);
    });
    collect_wishes();
    place_nodes();
    finish_updates();
    for (int segment : {0, 1, 2, 3, 4, 5}) {
      int64_t& bytes = layout_.buffers[segment].num_bytes;
      if (is_state_segment(segment)) bytes = states_.segment_bytes[segment];
      bytes = align_up(bytes, kPageBytes);
    }
    for (const auto& output : graph_.outputs())
      layout_.outputs.push_back(output_at_.at(output.value));
    graph_.renumber();
    return std::move(layout_);
  }

 private:
  // --- wishes: where a value should be written, seen from its consumers --------------------------

  int new_buffer(int64_t num_bytes) {
    layout_.buffers.push_back({Segment::kScratch, align_up(num_bytes, kTensorAlignment)});
    return static_cast<int>(layout_.buffers.size()) - 1;
  }

  Placement new_contiguous(const ir::TensorType& type) {
    return {new_buffer(type.num_bytes()), 0, type.shape.contiguous_strides()};
  }

  Placement in_segment(Segment segment, const ir::TensorType& type, int64_t alignment) {
    int64_t& bytes = layout_.buffers[static_cast<int>(segment)].num_bytes;
    const int64_t offset = align_up(bytes, alignment);
    bytes = offset + type.num_bytes();
    return {static_cast<int>(segment), offset / ir::dtype_bytes(type.dtype),
            type.shape.contiguous_strides()};
  }

  void wish(Value value, const Placement& placement) {
    if (!value.node->is_placeholder()) wishes_.emplace(value, placement);
  }

  const Placement* wish_of(Value value) const {
    const auto found = wishes_.find(value);
    return found == wishes_.end() ? nullptr : &found->second;
  }

  void collect_wishes() {
    for (const auto& update : graph_.updates()) {
      wish(update.next, layout_.placements.at(update.state->result()));
    }
    for (const auto& output : graph_.outputs()) {
      if (wish_of(output.value) != nullptr || output.value.node->is_placeholder()) continue;
      wish(output.value, in_segment(Segment::kOutput, output.value.type(), kTensorAlignment));
    }
    const auto& nodes = graph_.nodes();
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      if (ops::has_trait(**node, ops::kGather)) wish_parts(**node);
      if (ops::has_trait(**node, ops::kInPlace)) wish_exchanged(**node);
      if (is_view(**node)) wish_operand(**node);
      if (is_accumulation(**node) && has_one_reader(reads_, (*node)->operand(0))) wish_sum(**node);
      if ((*node)->body() != nullptr) wish_overwritten(**node);
    }
  }

  // A kernel's result over an operand that is not read again: less memory and less traffic.
  void wish_overwritten(Node& kernel) {
    for (int i = 0; i < kernel.num_results(); ++i) {
      const Placement* place = wish_of(kernel.result(i));
      if (place == nullptr || is_state_segment(place->buffer)) continue;
      if (const Value operand = overwritten_by(kernel, i, reads_)) wish(operand, *place);
    }
  }

  // Over an operand in scratch, if it lies in order and no other result is written there.
  Placement place_of(const Node& kernel, int result) {
    const ir::TensorType& type = kernel.types()[result];
    const Value operand = overwritten_by(kernel, result, reads_);
    if (!operand) return new_contiguous(type);
    const Placement& place = at(operand);
    for (int other = 0; other < kernel.num_results(); ++other) {
      const Value value{const_cast<Node*>(&kernel), other};
      const bool is_there = other < result && at(value) == place;
      const Placement* wanted = wish_of(value);
      if (is_there || (wanted != nullptr && *wanted == place)) return new_contiguous(type);
    }
    const bool is_scratch = layout_.buffers[place.buffer].segment == Segment::kScratch;
    const bool is_dense = place.strides == type.shape.contiguous_strides();
    return is_scratch && is_dense ? place : new_contiguous(type);
  }

  void wish_sum(Node& product) {
    const Value result = product.result();
    if (wish_of(result) == nullptr) wish(result, new_contiguous(result.type()));
    wish(product.operand(0), *wish_of(result));
  }

  void wish_parts(Node& gather) {
    const Value result = gather.result();
    if (state_packs_.contains(&gather)) return;
    if (joins_buckets(gather)) wishes_.erase(result);
    if (wish_of(result) == nullptr) wish(result, new_gathered(gather));
    const Placement whole = *wish_of(result);
    for (int i = 0; i < gather.num_operands(); ++i) {
      wish(gather.operand(i), part_placement(gather, i, whole));
    }
  }

  // The padding of a pack must stay zero: if it has some, its memory is its own.
  Placement new_gathered(const Node& gather) {
    const ir::TensorType& type = gather.types()[0];
    if (joins_buckets(gather)) return in_segment(Segment::kGradients, type, kPageBytes);
    if (!gather.is("pack")) return new_contiguous(type);
    std::vector<int64_t> parts = unpadded_parts(gather);
    if (parts.empty()) return in_segment(Segment::kGradients, type, kPageBytes);
    const Placement place = new_contiguous(type);
    layout_.buffers[place.buffer].parts = std::move(parts);
    return place;
  }

  // A collective in place runs where its result is wanted, and its operands are written there.
  void wish_exchanged(Node& start) {
    const Value result = start.result();
    const Placement* wanted = wish_of(result);
    if (wanted == nullptr || is_state_segment(wanted->buffer) ||
        wanted->strides != result.shape().contiguous_strides()) {
      wishes_[result] = new_contiguous(result.type());
    }
    const Placement whole = wishes_.at(result);
    for (int i = 0; i < start.num_operands(); ++i) {
      if (is_only_exchanged(start.operand(i))) {
        wish(start.operand(i), part_placement(start, i, whole));
      }
    }
  }

  // Nobody reads the value, or memory that it shares, but collectives in place.
  bool is_only_exchanged(Value value) const {
    const auto users = users_.find(value);
    return !roots_.contains(value) && users != users_.end() &&
           std::all_of(users->second.begin(), users->second.end(),
                       [](const Node* user) { return ops::has_trait(*user, ops::kInPlace); }) &&
           is_own_memory(value);
  }

  bool is_own_memory(Value value) const {
    const Node& node = *value.node;
    if (node.is_placeholder() || state_packs_.contains(&node)) return false;
    if (!ops::has_trait(node, ops::kGather) && (!is_view(node) || ops::has_trait(node, ops::kDone)))
      return true;
    if (node.num_results() > 1) return false;
    return std::all_of(node.operands().begin(), node.operands().end(), [&](Value operand) {
      const auto users = users_.find(operand);  // a copy made here has none
      return (users == users_.end() || users->second.size() == 1) && !roots_.contains(operand) &&
             is_own_memory(operand);
    });
  }

  void wish_operand(Node& view) {
    if (wants_contiguous(view)) wish(view.result(), new_contiguous(view.types()[0]));
    for (int i = 0; i < view.num_results(); ++i) {
      const Placement* result = wish_of(view.result(i));
      if (result == nullptr) continue;
      if (const auto operand = operand_placement(view, i, *result)) {
        wish(view.operand(0), *operand);
        return;
      }
    }
  }

  // A permuted value that is then reshaped would need a copy, and a transposed product would be
  // read with a stride: both are better written in the order in which they are read.
  bool wants_contiguous(Node& view) {
    for (int i = 0; i < view.num_results(); ++i) {
      if (wish_of(view.result(i)) != nullptr) return false;
    }
    const Node& producer = *view.operand(0).node;
    if (view.is("permute")) return is_product(producer);
    if (!view.is("reshape") || !producer.is("permute")) return false;
    const Node& source = *producer.operand(0).node;
    if (!is_product(source) && !is_attention(source) && source.body() == nullptr) return false;
    const Placement dense = {0, 0, producer.operand(0).shape().contiguous_strides()};
    const auto permuted = view_placement(producer, 0, dense);
    return !view_placement(view, 0, *permuted).has_value();
  }

  // --- placing ----------------------------------------------------------------------------------

  void place_nodes() {
    for (auto& taken : graph_.take_nodes()) {
      Node& node = *taken;
      if (is_view(node)) {
        prepare_view(node);
      } else if (ops::has_trait(node, ops::kGather)) {
        prepare_gather(node);
      } else if (ops::has_trait(node, ops::kStart)) {
        prepare_exchange(node);
      } else if (is_product(node)) {
        for (int i = node.num_operands() - 2; i < node.num_operands(); ++i) {
          if (!is_matrix(node.operand(i).shape(), at(node.operand(i)).strides)) {
            copy_operand(node, i, "a matrix product cannot read these strides");
          }
        }
      } else if (is_attention(node)) {
        for (int i = 0; i < node.num_operands(); ++i) {
          if (!has_whole_rows(node.operand(i).shape(), at(node.operand(i)).strides)) {
            copy_operand(node, i, "attention reads whole rows");
          }
        }
      } else if (is_dense_call(node)) {
        for (int i = 0; i < node.num_operands(); ++i) {
          if (at(node.operand(i)).strides != node.operand(i).shape().contiguous_strides()) {
            copy_operand(node, i, node.op() + " reads it in order");
          }
        }
      } else if (node.body() != nullptr) {
        prepare_kernel(node);
      }
      if (is_accumulation(node)) {
        place_results(node);
        prepare_accumulation(node);
        graph_.append(std::move(taken));
      } else {
        graph_.append(std::move(taken));
        place_results(node);
      }
      copy_outputs(node);
    }
  }

  const Placement& at(Value value) const { return layout_.placements.at(value); }

  void prepare_view(Node& node) {
    if (!view_placement(node, 0, at(node.operand(0)))) {
      copy_operand(node, 0, "these strides cannot be seen in the new shape");
    }
  }

  // segment_sum steps over whole rows of its values.
  void prepare_kernel(Node& node) {
    for (int i = 0; i < node.num_operands(); ++i) {
      const Value operand = node.operand(i);
      if (analysis::inner_axes_merge(*node.body(), operand.shape(), at(operand).strides)) continue;
      copy_operand(node, i, "the kernel steps through its inner axes as one");
    }
    for (const auto& inner : node.body()->nodes()) {
      if (!inner->is("segment_sum")) continue;
      const std::string& name = inner->operand(0).node->name();
      for (int i = 0; i < node.num_operands(); ++i) {
        const bool is_values = node.body()->nodes()[i]->name() == name;
        const Value operand = node.operand(i);
        if (is_values && at(operand).strides != operand.shape().contiguous_strides()) {
          copy_operand(node, i, "segment_sum reads whole rows");
        }
      }
    }
  }

  // The sum lies under the product, or is copied there first.
  void prepare_accumulation(Node& node) {
    const Value sum = node.operand(0);
    const Placement& place = at(node.result());
    if (has_one_reader(reads_, sum) && at(sum) == place) return;
    context_.remark(node, "the matrix that it is added to is copied: it is needed, or elsewhere");
    node.set_operand(0, clone_to(sum, place, node));
  }

  void prepare_gather(Node& node) {
    if (state_packs_.contains(&node)) return;
    Placement& whole = wishes_.at(node.result());
    if (!can_write(node, node.result(), whole)) whole = new_gathered(node);
    for (int i = 0; i < node.num_operands(); ++i) {
      const Placement part = part_placement(node, i, whole);
      if (at(node.operand(i)) == part) continue;
      context_.remark(node, fmt::format("operand {} is copied to its place: it lies elsewhere", i));
      node.set_operand(i, clone_to(node.operand(i), part, node));
    }
  }

  void prepare_exchange(Node& node) {
    if (!ops::has_trait(node, ops::kInPlace)) {
      const Value operand = node.operand(0);
      if (at(operand).strides == operand.shape().contiguous_strides()) return;
      return copy_operand(node, 0, "a collective sends elements in order");
    }
    for (int i = 0; i < node.num_operands(); ++i) {
      const Value operand = node.operand(i);
      const Placement part = part_placement(node, i, wishes_.at(node.result()));
      if (at(operand) == part && is_only_exchanged(operand)) continue;
      constexpr std::string_view kWhy =
          "it lies elsewhere, or is read by others than the collective";
      context_.remark(node, fmt::format("operand {} is copied: {}", i, kWhy));
      const auto [copy, is_new] = exchanged_copies_.emplace(operand, Value{});  // buckets may share
      if (is_new || at(copy->second) != part) copy->second = clone_to(operand, part, node);
      node.set_operand(i, copy->second);
    }
  }

  void copy_operand(Node& node, int index, std::string_view reason) {
    context_.remark(node, fmt::format("operand {} is copied: {}", index, reason));
    const Value operand = node.operand(index);
    node.set_operand(index, clone_to(operand, new_contiguous(operand.type()), node));
  }

  Value clone_to(Value value, Placement placement, const Node& reason) {
    auto body = std::make_unique<ir::Graph>("kernel");
    const Value inner = body->add_input("x0", value.type())->result();
    body->add_output("y0", body->add("clone", {inner}, {}, {value.type()})->result());
    Node* clone = graph_.add_fused({value}, std::move(body));
    clone->set_phase(reason.phase());
    clone->set_provenance(reason.provenance());
    layout_.placements[clone->result()] = std::move(placement);
    return clone->result();
  }

  void place_results(Node& node) {
    if (node.is("state")) return;
    for (int i = 0; i < node.num_results(); ++i) {
      const Value value = node.result(i);
      if (node.is("input")) {
        layout_.placements[value] = in_segment(Segment::kInput, value.type(), kTensorAlignment);
      } else if (is_view(node)) {
        layout_.placements[value] = *view_placement(node, i, at(node.operand(0)));
      } else if (state_packs_.contains(&node)) {
        layout_.placements[value] = state_packs_.at(&node);
      } else {
        const Placement* wanted = wish_of(value);
        layout_.placements[value] =
            wanted != nullptr && can_write(node, value, *wanted) ? *wanted : place_of(node, i);
      }
    }
  }

  bool can_write(const Node& node, Value value, const Placement& placement) {
    const bool is_dense = placement.strides == value.shape().contiguous_strides();
    if ((is_dense_call(node) || ops::has_trait(node, ops::kStart)) && !is_dense) return false;
    if (is_product(node) && !is_matrix(value.shape(), placement.strides)) return false;
    if (is_attention(node) && !has_whole_rows(value.shape(), placement.strides)) return false;
    if (const ir::Graph* body = node.body();
        body != nullptr && !analysis::inner_axes_merge(*body, value.shape(), placement.strides)) {
      return false;
    }
    if (!is_state_segment(placement.buffer)) return true;
    return is_dense && can_overwrite(node, value, placement);
  }

  // The states under these elements are read by nobody later, and here only element by element.
  bool can_overwrite(const Node& node, Value value, const Placement& placement) {
    const int64_t element = ir::dtype_bytes(value.dtype());
    const int64_t begin = placement.offset * element;
    const int64_t end = begin + value.type().num_bytes();
    for (Node* state : all_states_) {
      const ir::Address& address = states_.entries.at(state->name()).address;
      if (static_cast<int>(address.segment) != placement.buffer) continue;
      const int64_t state_end = address.offset + state->types()[0].num_bytes();
      if (address.offset >= end || state_end <= begin) continue;
      const auto last = reads_.last_of_state.find(state);
      int last_id = last == reads_.last_of_state.end() ? -1 : last->second;
      // An output is copied where the state stands: a collective may begin before.
      if (roots_.contains(state->result())) last_id = std::max(last_id, state->id());
      const bool is_mixed = last_id == node.id() && !reads_in_place(node, value, placement);
      if (last_id > node.id() || is_mixed || !graph_.update_of(state)) {
        context_.remark(
            node, fmt::format("does not write over state '{}': it is read later", state->name()));
        return false;
      }
    }
    return true;
  }

  bool reads_in_place(const Node& node, Value value, const Placement& placement) const {
    if (node.body() == nullptr || !analysis::is_elementwise(*node.body())) return false;
    for (Value operand : node.operands()) {
      const Placement& read = at(operand);
      if (read.buffer != placement.buffer || read == placement) continue;
      // A read with other strides than dense ones may reach anywhere.
      const bool is_dense = read.strides == operand.shape().contiguous_strides();
      const bool apart = read.offset + operand.type().num_elements() <= placement.offset ||
                         placement.offset + value.type().num_elements() <= read.offset;
      if (!is_dense || !apart) return false;
    }
    return true;
  }

  void copy_outputs(Node& node) {
    for (int i = 0; i < node.num_results(); ++i) {
      const Value value = node.result(i);
      const auto is_this = [&](const ir::Graph::Output& output) { return output.value == value; };
      const auto& outputs = graph_.outputs();
      if (std::none_of(outputs.begin(), outputs.end(), is_this)) continue;
      const Placement& placement = at(value);
      const bool is_there = placement.buffer == static_cast<int>(Segment::kOutput) &&
                            placement.strides == value.shape().contiguous_strides();
      output_at_[value] =
          is_there
              ? value
              : clone_to(value, in_segment(Segment::kOutput, value.type(), kTensorAlignment), node);
    }
  }

  // What was not written over its state is copied there when everything has been read, from some
  // state's memory through scratch: that state may change too.
  void finish_updates() {
    std::vector<std::pair<Node*, Value>> late;
    for (const auto& update : graph_.updates()) {
      const Placement& home = at(update.state->result());
      if (at(update.next) == home) continue;
      Value next = update.next;
      if (is_state_segment(at(next).buffer)) {
        next = clone_to(next, new_contiguous(next.type()), *update.state);
      }
      late.emplace_back(update.state, next);
    }
    for (auto& [state, next] : late) {
      context_.remark(*state, "its next value is copied at the end of the step");
      const Value copied = clone_to(next, at(state->result()), *state);
      copied.node->set_phase(ir::Phase::kOptimizer);
      graph_.set_update(state, copied);
    }
  }

  ir::Graph& graph_;
  StateLayout& states_;
  PassContext& context_;
  Layout layout_;
  std::unordered_map<const Node*, Placement> state_packs_;
  Reads reads_;
  ir::ValueMap<Placement> wishes_;
  ir::ValueMap<Value> output_at_;
  ir::ValueMap<Value> exchanged_copies_;
  ir::ValueMap<std::vector<Node*>> users_;
  ir::ValueSet roots_;
  std::vector<Node*> all_states_;
};

}  // namespace

Layout assign_layout(ir::Graph& graph, StateLayout& states, PassContext& context) {
  return LayoutPlanner(graph, states, context).run();
}

}  // namespace monograph::passes
