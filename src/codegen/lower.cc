#include "codegen/lower.h"

#include <algorithm>
#include <set>

#include "analysis/iteration_space.h"
#include "base/error.h"
#include "codegen/loop_space.h"
#include "codegen/schedule_loop.h"

namespace monograph::codegen {
namespace {

using analysis::FuseRole;
using analysis::IterationSpace;
using ir::Domain;
using ir::Instruction;
using ir::Loop;
using ir::Node;
using ir::RegisterType;
using ir::Value;
using Kind = ir::InstructionKind;
using Strides = std::vector<int64_t>;

constexpr int64_t kRowCacheBytes = 1 << 20;  // a longer row is read from memory again each sweep

class Lowering {
 public:
  Lowering(const ir::Graph& body, std::span<const Strides> operand_strides,
           std::span<const Strides> result_strides, const LoweringTarget& target)
      : body_(body),
        target_(target),
        operand_strides_(operand_strides),
        result_strides_(result_strides),
        fused_space_(analysis::kernel_space(body)),
        space_(fused_space_.shape, fused_space_.inner_rank) {}

  LoweredKernel run() {
    collect_accesses();
    space_.collapse();
    loop_.row_extents = space_.row_extents();
    loop_.inner_extent = space_.inner_extent();
    for (const Node* input : inputs_)
      add_buffer(input->types()[0].dtype, ir::LoopBuffer::Use::kInput);
    for (const auto& output : body_.outputs()) {
      add_buffer(output.value.dtype(), ir::LoopBuffer::Use::kOutput);
    }
    for (const auto& node : body_.nodes()) emit(*node);
    for (size_t i = 0; i < body_.outputs().size(); ++i) emit_output(static_cast<int>(i));
    schedule_loop(loop_, target_.device, target_.like);
    count_bytes();
    ir::verify(loop_);
    return {std::move(loop_), std::move(arguments_), bytes_moved_, bytes_least_};
  }

 private:
  // --- accesses
  // -----------------------------------------------------------------------------------

  int rank() const { return fused_space_.shape.rank(); }

  // The strides over the space of a value seen through broadcasting.
  int add_value_access(const ir::Shape& shape, const Strides& strides) {
    return space_.add(ir::broadcast_strides(shape, strides, fused_space_.shape));
  }

  void collect_accesses() {
    for (const auto& node : body_.nodes()) {
      if (node->is("input")) {
        input_number_[node.get()] = static_cast<int>(inputs_.size());
        inputs_.push_back(node.get());
      } else {
        collect_node(*node);
      }
    }
    for (size_t i = 0; i < body_.outputs().size(); ++i) {
      output_access_.push_back(add_output_access(body_.outputs()[i].value, result_strides_[i]));
    }
  }

  void collect_node(const Node& node) {
    const FuseRole role = analysis::fuse_role(node);
    if (role == FuseRole::kIndexed) return collect_indexed(node);
    if (role == FuseRole::kCreation && !node.is("full")) {
      Strides strides = node.types()[0].shape.contiguous_strides();
      if (node.is("iota")) {
        const int64_t axis = node.attribute<int64_t>("axis");
        const int64_t at = axis < 0 ? axis + strides.size() : axis;
        for (size_t dim = 0; dim < strides.size(); ++dim) strides[dim] = dim == size_t(at);
      }
      node_access_[&node] = add_value_access(node.types()[0].shape, strides);
    }
    for (Value operand : node.operands()) {
      if (operand.node->is("input")) add_load(operand.node);
    }
  }

  void add_load(const Node* input) {
    if (node_access_.contains(input)) return;
    node_access_[input] =
        add_value_access(input->types()[0].shape, operand_strides_[input_number_.at(input)]);
  }

  // The index of an embedding has the rows' dims only; those of a segment sum are per row as well.
  void collect_indexed(const Node& node) {
    if (node.is("segment_sum")) {
      Strides rows(rank(), 0);
      rows[rank() - 2] = 1;
      node_access_[&node] = space_.add(rows);
      return;
    }
    const Node* index = node.operand(1).node;
    const Strides& strides = operand_strides_[input_number_.at(index)];
    const int missing = node.is("embedding") ? 1 : 0;
    Strides full(rank(), 0);
    const int offset = rank() - missing - static_cast<int>(strides.size());
    for (size_t dim = 0; dim < strides.size(); ++dim) {
      if (index->types()[0].shape.dims()[dim] != 1) full[offset + dim] = strides[dim];
    }
    index_access_[&node] = space_.add(full);
    const Strides& source = operand_strides_[input_number_.at(node.operand(0).node)];
    Strides direct = node.is("embedding") ? Strides(rank(), 0) : source;
    direct[rank() - 1] = node.is("embedding") ? source[1] : 0;
    node_access_[&node] = space_.add(direct);
  }

  int add_output_access(Value value, const Strides& strides) {
    const Node& node = *value.node;
    if (analysis::fuse_role(node) != FuseRole::kTerminal) {
      return add_value_access(value.shape(), strides);
    }
    // A terminal result has the kept dims only; the reduced ones get stride 0.
    const auto& axes = node.attribute<std::vector<int64_t>>("axes");
    const int operand_rank = node.operand(0).shape().rank();
    Strides full(rank(), 0);
    size_t next = 0;
    for (int dim = 0; dim < operand_rank; ++dim) {
      const bool reduced = std::find(axes.begin(), axes.end(), dim) != axes.end();
      if (!reduced) full[rank() - operand_rank + dim] = strides[next];
      if (!reduced || node.attribute<bool>("keepdim")) ++next;
    }
    return space_.add(full);
  }

  // --- instructions
  // -------------------------------------------------------------------------------

  void add_buffer(ir::DType dtype, ir::LoopBuffer::Use use) {
    const size_t number = loop_.buffers.size();
    const int64_t alignment = number < target_.alignments.size() ? target_.alignments[number] : 0;
    loop_.buffers.push_back({dtype, use, 0, alignment});
  }

  int add(Instruction instruction) {
    loop_.instructions.push_back(std::move(instruction));
    return static_cast<int>(loop_.instructions.size()) - 1;
  }

  Domain domain_of(int id) const { return loop_.instructions[id].domain; }
  RegisterType type_of(int id) const { return loop_.instructions[id].type; }

  ir::Access access_at(int number, int buffer) const {
    ir::Access access;
    access.buffer = buffer;
    access.row_strides = space_.row_strides(number);
    access.inner_stride = space_.inner_stride(number);
    return access;
  }

  int load(const Node* input, int number) {
    const int buffer = input_number_.at(input);
    return add({.kind = Kind::kLoad,
                .type = ir::register_type(input->types()[0].dtype),
                .domain = space_.domain(number),
                .operands = {},
                .access = access_at(number, buffer)});
  }

  int value_of(Value value) {
    const auto found = ids_.find(value.node);
    if (found != ids_.end()) return found->second;
    check(value.node->is("input"), "lower: '{}' used before it is made", value.node->op());
    return ids_[value.node] = load(value.node, node_access_.at(value.node));
  }

  int apply(ir::ScalarOp op, std::vector<int> operands, RegisterType type) {
    Domain domain = Domain::kScalar;
    for (int operand : operands) domain = std::max(domain, domain_of(operand));
    return add({.kind = Kind::kApply,
                .type = type,
                .domain = domain,
                .operands = std::move(operands),
                .op = op});
  }

  int converted(int id, RegisterType type) {
    return type_of(id) == type ? id : apply(ir::ScalarOp::kConvert, {id}, type);
  }

  void emit(const Node& node) {
    switch (analysis::fuse_role(node)) {
      case FuseRole::kNone:
        return;  // inputs are loaded where they are used
      case FuseRole::kCreation:
        ids_[&node] = emit_creation(node);
        return;
      case FuseRole::kElement:
        ids_[&node] = emit_element(node);
        return;
      case FuseRole::kRowReduction:
        ids_[&node] = emit_reduce(node);
        return;
      case FuseRole::kTerminal:
        return emit_terminal(node);
      case FuseRole::kIndexed:
        ids_[&node] = emit_indexed(node);
        return;
    }
  }

  int emit_creation(const Node& node) {
    const RegisterType type = ir::register_type(node.types()[0].dtype);
    if (node.is("full")) {
      return add({.kind = Kind::kConstant,
                  .type = type,
                  .domain = Domain::kScalar,
                  .operands = {},
                  .value = node.attribute<double>("value")});
    }
    const int number = node_access_.at(&node);
    if (node.is("iota")) {
      const int index = add({.kind = Kind::kIndex,
                             .type = RegisterType::kI64,
                             .domain = space_.domain(number),
                             .operands = {},
                             .access = access_at(number, -1)});
      return converted(index, type);
    }
    check(node.is("philox_uniform"), "lower: no way to create '{}'", node.op());
    return add({.kind = Kind::kPhilox,
                .type = RegisterType::kF32,
                .domain = space_.domain(number),
                .operands = {value_of(node.operand(0)), value_of(node.operand(1)),
                             argument(node.attribute<int64_t>("stream"))},
                .access = random_access(node, number)});
  }

  // A number that tells this launch from others of the same kernel.
  int argument(int64_t value) {
    const auto known = std::find(arguments_.begin(), arguments_.end(), value);
    const int index = static_cast<int>(known - arguments_.begin());
    if (known == arguments_.end()) arguments_.push_back(value);
    return add({.kind = Kind::kArgument,
                .type = RegisterType::kI64,
                .domain = Domain::kScalar,
                .operands = {},
                .argument = index});
  }

  // The numbers of the elements of one of many equal parts of a tensor.
  ir::Access random_access(const Node& node, int number) {
    ir::Access access = access_at(number, -1);
    const Node& part = *node.operand(2).node;
    const int64_t num_elements = node.types()[0].num_elements();
    if (part.is("full")) {
      access.offset += static_cast<int64_t>(part.attribute<double>("value")) * num_elements;
    } else {
      access.index = value_of(node.operand(2));
      access.index_stride = num_elements;
    }
    return access;
  }

  int emit_element(const Node& node) {
    std::vector<int> operands;
    for (Value operand : node.operands()) operands.push_back(value_of(operand));
    if (node.is("expand") || node.is("clone") || node.is("detach")) return operands[0];
    const RegisterType type = ir::register_type(node.types()[0].dtype);
    if (node.is("convert")) return converted(operands[0], type);
    ir::ScalarOp op;
    check(ir::find_scalar_op(node.op(), &op), "lower: no scalar function for '{}'", node.op());
    return apply(op, std::move(operands), type);
  }

  static ir::Reduction reduction_of(const Node& node) {
    if (node.is("sum")) return ir::Reduction::kSum;
    check(node.is("amax"), "lower: no reduction for '{}'", node.op());
    return ir::Reduction::kMax;
  }

  int emit_reduce(const Node& node) {
    const int operand = value_of(node.operand(0));
    return add({.kind = Kind::kReduce,
                .type = type_of(operand),
                .domain = Domain::kRow,
                .operands = {operand},
                .reduction = reduction_of(node)});
  }

  // A reduction whose dims are dropped is a row value too; the others accumulate over the rows.
  void emit_terminal(const Node& node) {
    const auto& axes = node.attribute<std::vector<int64_t>>("axes");
    const int operand_rank = node.operand(0).shape().rank();
    const bool rows_dropped = axes.back() == operand_rank - 1 && axes.front() != 0;
    if (rows_dropped) {
      ids_[&node] = emit_reduce(node);
    } else {
      accumulated_[&node] = value_of(node.operand(0));
    }
  }

  int emit_indexed(const Node& node) {
    const Node* source = node.operand(0).node;
    const int buffer = input_number_.at(source);
    const RegisterType type = ir::register_type(source->types()[0].dtype);
    if (node.is("segment_sum")) return emit_segment_sum(node, buffer, type);
    const Node* index_input = node.operand(1).node;
    const int index = load(index_input, index_access_.at(&node));
    const int number = node_access_.at(&node);
    ir::Access access = access_at(number, buffer);
    access.index = index;
    access.index_stride =
        node.is("embedding") ? operand_strides_[buffer][0] : operand_strides_[buffer][rank() - 1];
    const Domain domain = std::max(space_.domain(number), domain_of(index));
    return add({.kind = Kind::kLoad,
                .type = type,
                .domain = domain,
                .operands = {},
                .access = std::move(access)});
  }

  int emit_segment_sum(const Node& node, int buffer, RegisterType type) {
    const int rows = node_access_.at(&node);
    const int offsets = input_number_.at(node.operand(2).node);
    std::vector<int> bounds;
    for (int64_t end : {0, 1}) {
      ir::Access access = access_at(rows, offsets);
      access.offset = end;
      bounds.push_back(add({.kind = Kind::kLoad,
                            .type = RegisterType::kI64,
                            .domain = space_.domain(rows),
                            .operands = {},
                            .access = std::move(access)}));
    }
    const ir::Shape& values = node.operand(0).shape();
    ir::Access access;
    access.buffer = buffer;
    access.inner_stride = loop_.inner_extent == 1 ? 0 : 1;  // whole rows, dense (layout sees to it)
    access.row_strides.assign(loop_.row_extents.size(), 0);
    access.index_stride = values[-1];
    return add({.kind = Kind::kSegmentSum,
                .type = type,
                .domain = Domain::kElement,
                .operands = bounds,
                .access = std::move(access),
                .order_buffer = input_number_.at(node.operand(1).node)});
  }

  void emit_output(int number) {
    const Value value = body_.outputs()[number].value;
    const int access_number = output_access_[number];
    const int buffer = static_cast<int>(inputs_.size()) + number;
    const auto accumulated = accumulated_.find(value.node);
    if (accumulated == accumulated_.end()) {
      const int id = converted(value_of(value), ir::register_type(value.dtype()));
      add({.kind = Kind::kStore,
           .type = type_of(id),
           .domain = std::max(space_.domain(access_number), domain_of(id)),
           .operands = {id},
           .access = access_at(access_number, buffer)});
      return;
    }
    const int id = accumulated->second;
    const ir::Shape& shape = value.node->operand(0).shape();
    const bool row_valued = shape != fused_space_.shape && shape == fused_space_.row_shape();
    const bool keeps_inner = space_.inner_stride(access_number) != 0;
    ir::Access access;
    access.buffer = buffer;
    access.inner_stride = space_.inner_stride(access_number);
    add({.kind = Kind::kAccumulate,
         .type = type_of(id),
         .domain = row_valued ? Domain::kRow : Domain::kElement,
         .operands = {id},
         .reduction = reduction_of(*value.node),
         .access = std::move(access),
         .keeps_inner = keeps_inner});
  }

  // --- traffic
  // --------------------------------------------------------------------------------------

  void count_bytes() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const int64_t bytes = input_bytes(*inputs_[i]);
      bytes_least_ += bytes;
      bytes_moved_ += bytes * times_read(static_cast<int>(i));
    }
    for (const auto& output : body_.outputs()) {
      const int64_t bytes = output.value.type().num_bytes();
      bytes_least_ += bytes;
      bytes_moved_ += bytes;
    }
    if (loop_.partials_buffer < 0) return;
    const ir::LoopBuffer& partials = loop_.buffers[loop_.partials_buffer];
    bytes_moved_ += 2 * partials.num_elements * ir::dtype_bytes(partials.dtype);
  }

  // An embedding reads the rows that it picks, at most the whole table.
  int64_t input_bytes(const Node& input) const {
    int64_t bytes = input.types()[0].num_bytes();
    for (const auto& node : body_.nodes()) {
      const bool picks = (node->is("embedding") || node->is("gather")) &&
                         node->operand(0).node == &input && !node_access_.contains(&input);
      if (picks) bytes = std::min(bytes, node->types()[0].num_bytes());
    }
    return bytes;
  }

  int64_t times_read(int buffer) const {
    int64_t row_bytes = 0;
    std::set<int> sweeps;
    std::vector<std::set<int>> needed(loop_.instructions.size());
    for (int at = static_cast<int>(loop_.instructions.size()) - 1; at >= 0; --at) {
      const Instruction& i = loop_.instructions[at];
      if (is_sink(i) || i.keep) needed[at] = {i.sweep};
      for (int operand : i.operands) needed[operand].insert(needed[at].begin(), needed[at].end());
      if (i.kind != Kind::kLoad || i.domain != Domain::kElement) continue;
      row_bytes += loop_.inner_extent * ir::dtype_bytes(loop_.buffers[i.access.buffer].dtype);
      if (i.access.buffer == buffer) sweeps.insert(needed[at].begin(), needed[at].end());
    }
    const bool is_cached = row_bytes <= kRowCacheBytes && !target_.device.is_cuda();
    return is_cached || loop_.split == Loop::Split::kInner
               ? 1
               : std::max<int64_t>(1, static_cast<int64_t>(sweeps.size()));
  }

  const ir::Graph& body_;
  const LoweringTarget& target_;
  std::span<const Strides> operand_strides_;
  std::span<const Strides> result_strides_;
  IterationSpace fused_space_;
  LoopSpace space_;
  Loop loop_;
  std::vector<int64_t> arguments_;
  std::vector<const Node*> inputs_;
  std::unordered_map<const Node*, int> input_number_;
  std::unordered_map<const Node*, int> node_access_;   // plain loads, creations, indexed sources
  std::unordered_map<const Node*, int> index_access_;  // of indexed nodes: their index
  std::vector<int> output_access_;
  std::unordered_map<const Node*, int> ids_;
  std::unordered_map<const Node*, int> accumulated_;
  int64_t bytes_moved_ = 0;
  int64_t bytes_least_ = 0;
};

}  // namespace

LoweredKernel lower_kernel(const ir::Graph& body, std::span<const Strides> operand_strides,
                           std::span<const Strides> result_strides, const LoweringTarget& target) {
  return Lowering(body, operand_strides, result_strides, target).run();
}

}  // namespace monograph::codegen
