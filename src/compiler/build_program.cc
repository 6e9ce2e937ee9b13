#include "compiler/build_program.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "codegen/lower.h"
#include "compiler/assign_memory.h"
#include "ir/graph_table.h"
#include "ir/program/attention_workspace.h"
#include "ir/state_role.h"
#include "ops/collective/transfer.h"
#include "ops/conv/pooling.h"
#include "ops/registry.h"

namespace monograph::compiler {
namespace {

using ir::Address;
using ir::Node;
using ir::Segment;
using ir::Value;
using passes::Placement;

// A matrix in memory as BLAS sees it: rows of `leading` elements, or the transpose of that.
struct MatrixView {
  bool transposed = false;
  int64_t leading = 1;
};

MatrixView matrix_view(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
  if ((column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1)) {
    return {false, rows == 1 ? std::max(row_stride, columns) : row_stride};
  }
  return {true, columns == 1 ? std::max(column_stride, rows) : column_stride};
}

// The dims before the last are stepped through as one.
bool rows_merge(const ir::Shape& shape, const std::vector<int64_t>& strides) {
  for (int dim = shape.rank() - 3; dim >= 0; --dim) {
    if (shape[dim] != 1 && strides[dim] != strides[dim + 1] * shape[dim + 1]) return false;
  }
  return true;
}

// Of ops::ConvSizes or ops::PoolSizes.
template <typename Sizes>
ir::ImageSizes image_sizes(const Sizes& s) {
  return {s.batch,
          s.height,
          s.width,
          s.channels,
          s.out_height,
          s.out_width,
          {s.window.kernel_height, s.window.kernel_width},
          {s.window.stride_height, s.window.stride_width},
          {s.window.padding_height, s.window.padding_width}};
}

class ProgramBuilder {
 public:
  ProgramBuilder(const ir::Graph& graph, const passes::Layout& layout, const ir::DeviceSpec& device,
                 bool deterministic, const ir::Program* like)
      : graph_(graph),
        layout_(layout),
        device_(device),
        deterministic_(deterministic),
        like_(like),
        buffers_(layout.buffers) {}

  UnplacedProgram run() {
    for (const auto& node : graph_.nodes()) {
      if (node->body() != nullptr) {
        add_kernel(*node);
      } else if (node->is("matmul") || node->is("addmm")) {
        add_gemm(*node);
      } else if (node->is("sort_ids")) {
        add_sort(*node);
      } else if (node->is("top_k")) {
        add_top_k(*node);
      } else if (node->is("scaled_dot_product_attention")) {
        add_attention(*node, false);
      } else if (node->is("scaled_dot_product_attention_backward")) {
        add_attention(*node, true);
      } else if (ops::has_trait(*node, ops::kStart)) {
        add_collective(*node);
      } else if (ops::has_trait(*node, ops::kDone)) {
        add_wait(*node);
      } else if (node->op().starts_with("conv2d")) {
        add_conv(*node);
      } else if (node->op().starts_with("max_pool2d")) {
        add_max_pool(*node);
      } else {
        check(node->is_placeholder() || ops::has_trait(*node, ops::kViewLike) ||
                  ops::has_trait(*node, ops::kGather),
              "no way to run '{}' ({})", node->op(), node->types()[0].str());
      }
    }
    add_tensors();
    return {std::move(program_), std::move(buffers_)};
  }

 private:
  using StrideLists = std::vector<std::vector<int64_t>>;
  struct Lowered {
    int kernel = -1;
    std::vector<int64_t> scalars;
    int64_t bytes_moved = 0, bytes_least = 0;
  };

  const Placement& at(Value value) const { return layout_.placements.at(value); }

  Address address_of(Value value) {
    return address(at(value).buffer, at(value).offset, value.dtype());
  }

  Address address(int buffer, int64_t offset, ir::DType dtype) {
    const int64_t bytes = offset * ir::dtype_bytes(dtype);
    if (buffer < ir::kNumSegments) return {static_cast<Segment>(buffer), bytes};
    return address_in_buffer(buffer, bytes);
  }

  // Buffers begin at multiples of passes::kTensorAlignment; more than 16 bytes are of no use.
  static int64_t alignment_of(const Address& address) {
    return std::gcd(address.offset, int64_t{16});
  }

  ir::Step& add_step(const Node& node, decltype(ir::Step::work) work) {
    ir::Step step;
    step.work = std::move(work);
    step.phase = node.phase();
    const std::string& scope = node.provenance().scope;
    step.name = scope.empty() ? "" : scope + ": ";
    program_.steps.push_back(std::move(step));
    return program_.steps.back();
  }

  void add_kernel(const Node& node) {
    StrideLists operand_strides, result_strides;
    ir::KernelStep work;
    codegen::LoweringTarget target{device_, {}, loop_to_follow()};
    const auto add_argument = [&](Value value) {
      work.arguments.push_back(address_of(value));
      if (device_.is_cuda()) target.alignments.push_back(alignment_of(work.arguments.back()));
    };
    for (Value operand : node.operands()) {
      operand_strides.push_back(at(operand).strides);
      add_argument(operand);
    }
    for (int i = 0; i < node.num_results(); ++i) {
      const Value result{const_cast<Node*>(&node), i};
      result_strides.push_back(at(result).strides);
      add_argument(result);
    }
    const Lowered& lowered = lower(*node.body(), operand_strides, result_strides, target);
    for (const ir::LoopBuffer& buffer : program_.kernels[lowered.kernel].buffers) {
      if (buffer.use != ir::LoopBuffer::Use::kWorkspace) continue;
      buffers_.push_back({Segment::kScratch,
                          (buffer.num_elements * ir::dtype_bytes(buffer.dtype) + 255) / 256 * 256});
      work.arguments.push_back(address(static_cast<int>(buffers_.size()) - 1, 0, buffer.dtype));
    }
    work.kernel = lowered.kernel;
    work.scalars = lowered.scalars;
    ir::Step& step = add_step(node, std::move(work));
    step.bytes_moved = lowered.bytes_moved;
    step.bytes_least = lowered.bytes_least;
    describe_body(*node.body(), step);
  }

  // Equal bodies with equal strides, as in equal layers, are lowered once.
  const Lowered& lower(const ir::Graph& body, const StrideLists& operands,
                       const StrideLists& results, const codegen::LoweringTarget& target) {
    std::vector<int64_t> key = {bodies_.add(body)};
    for (const StrideLists* lists : {&operands, &results}) {
      for (const auto& strides : *lists) {
        key.push_back(static_cast<int64_t>(strides.size()));
        key.insert(key.end(), strides.begin(), strides.end());
      }
    }
    key.insert(key.end(), target.alignments.begin(), target.alignments.end());
    if (target.like != nullptr) key.push_back(target.like - like_->kernels.data());
    const auto [found, is_new] = lowered_.try_emplace(std::move(key));
    if (is_new) {
      codegen::LoweredKernel lowered = codegen::lower_kernel(body, operands, results, target);
      found->second = {kernel_number(std::move(lowered.loop)), std::move(lowered.scalars),
                       lowered.bytes_moved, lowered.bytes_least};
    }
    return found->second;
  }

  // The Loop of the other program's kernel at this place among the kernels.
  const ir::Loop* loop_to_follow() {
    if (like_ == nullptr) return nullptr;
    for (; next_to_follow_ < like_->steps.size(); ++next_to_follow_) {
      const auto* kernel = std::get_if<ir::KernelStep>(&like_->steps[next_to_follow_].work);
      if (kernel == nullptr) continue;
      ++next_to_follow_;
      return &like_->kernels[kernel->kernel];
    }
    return nullptr;
  }

  void describe_body(const ir::Graph& body, ir::Step& step) {
    std::vector<std::string> names;
    step.num_nodes = 0;
    for (const auto& inner : body.nodes()) {
      if (inner->is_placeholder()) continue;
      step.flops += ops::cost_of(*inner).flops;
      if (ops::has_trait(*inner, ops::kCreation)) continue;
      ++step.num_nodes;
      if (std::find(names.begin(), names.end(), inner->op()) == names.end()) {
        names.push_back(inner->op());
      }
    }
    for (const std::string& name : names) step.name += (name == names[0] ? "" : ",") + name;
  }

  int kernel_number(ir::Loop loop) {
    const auto [found, is_new] = kernels_.emplace(loop.str(), program_.kernels.size());
    if (is_new) program_.kernels.push_back(std::move(loop));
    return static_cast<int>(found->second);
  }

  void add_gemm(const Node& node) {
    const Value a = node.operand(node.num_operands() - 2);
    const Value b = node.operand(node.num_operands() - 1);
    const Value c{const_cast<Node*>(&node), 0};
    ir::GemmStep gemm;
    gemm.accumulates = passes::is_accumulation(node);
    const bool has_bias = node.is("addmm") && !gemm.accumulates;
    check(!gemm.accumulates || at(node.operand(0)) == at(c),
          "a sum does not lie under its product");
    gemm.dtype = a.dtype();
    gemm.result_dtype = c.dtype();
    gemm.m = a.shape()[-2];
    gemm.k = a.shape()[-1];
    gemm.n = b.shape()[-1];
    const bool shared_b = b.shape().rank() == 2;
    if (shared_b && rows_merge(a.shape(), at(a).strides) && rows_merge(c.shape(), at(c).strides)) {
      gemm.m = c.shape().num_elements() / gemm.n;
    } else {
      for (int dim = 0; dim < c.shape().rank() - 2; ++dim) {
        gemm.batch.push_back(c.shape()[dim]);
        gemm.batch_strides_a.push_back(at(a).strides[dim]);
        gemm.batch_strides_b.push_back(shared_b ? 0 : at(b).strides[dim]);
        gemm.batch_strides_c.push_back(at(c).strides[dim]);
      }
    }
    const auto view = [&](Value value, int64_t rows, int64_t columns) {
      const auto& strides = at(value).strides;
      return matrix_view(rows, columns, strides[strides.size() - 2], strides.back());
    };
    MatrixView va = view(a, gemm.m, gemm.k), vb = view(b, gemm.k, gemm.n);
    const MatrixView vc = view(c, gemm.m, gemm.n);
    gemm.a = address_of(a);
    gemm.b = address_of(b);
    if (vc.transposed) {  // c^T = b^T a^T
      std::swap(gemm.a, gemm.b);
      std::swap(gemm.batch_strides_a, gemm.batch_strides_b);
      std::swap(gemm.m, gemm.n);
      std::swap(va, vb);
      va.transposed = !va.transposed;
      vb.transposed = !vb.transposed;
    }
    gemm.transpose_a = va.transposed;
    gemm.transpose_b = vb.transposed;
    gemm.lda = va.leading;
    gemm.ldb = vb.leading;
    gemm.ldc = vc.leading;
    gemm.c = address_of(c);
    gemm.has_bias = has_bias;
    gemm.bias_along_rows = vc.transposed;
    if (has_bias) {
      gemm.bias = address_of(node.operand(0));
      gemm.bias_dtype = node.operand(0).dtype();
    }
    add_call(node, std::move(gemm));
  }

  void add_sort(const Node& node) {
    const Value ids = node.operand(0);
    const Value order{const_cast<Node*>(&node), 0};
    const Value offsets{const_cast<Node*>(&node), 1};
    ir::SortIdsStep sort{
        ids.dtype(),     ids.type().num_elements(), node.attribute<int64_t>("num_ids"),
        address_of(ids), address_of(order),         address_of(offsets)};
    add_call(node, sort);
  }

  void add_top_k(const Node& node) {
    const Value x = node.operand(0), values{const_cast<Node*>(&node), 0};
    const Value indices{const_cast<Node*>(&node), 1};
    const int64_t length = x.shape()[-1];
    const ir::TopKStep work{x.type().num_elements() / length,
                            length,
                            node.attribute<int64_t>("k"),
                            address_of(x),
                            address_of(values),
                            address_of(indices)};
    add_call(node, work);
  }

  ir::AttentionStep::Tensor attention_tensor(Value value) {
    const auto& strides = at(value).strides;
    return {address_of(value), {strides[0], strides[1], strides[2]}};
  }

  void add_attention(const Node& node, bool is_backward) {
    const int first = is_backward ? 1 : 0;  // grad_output goes before q
    const Value q = node.operand(first), k = node.operand(first + 1);
    const auto result = [&](int i) { return attention_tensor({const_cast<Node*>(&node), i}); };
    ir::AttentionStep work;
    work.dtype = q.dtype();
    work.is_backward = is_backward;
    work.causal = node.attribute<bool>("causal");
    work.scale = node.attribute<double>("scale");
    work.batch = q.shape()[0], work.heads = q.shape()[1], work.kv_heads = k.shape()[1];
    work.queries = q.shape()[2], work.keys = k.shape()[2], work.width = q.shape()[3];
    work.q = attention_tensor(q);
    work.k = attention_tensor(k);
    work.v = attention_tensor(node.operand(first + 2));
    work.output = is_backward ? attention_tensor(node.operand(4)) : result(0);
    work.logsumexp = is_backward ? attention_tensor(node.operand(5)) : result(1);
    if (is_backward) {
      work.grad_output = attention_tensor(node.operand(0));
      work.grad_q = result(0);
      work.grad_k = result(1);
      work.grad_v = result(2);
      work.num_splits = work.wanted_splits();
      work.is_deterministic = deterministic_ || !device_.is_cuda();
      buffers_.push_back({Segment::kScratch, device_.is_cuda() ? ir::gpu_workspace_bytes(work)
                                                               : work.workspace_bytes()});
      work.workspace = address(static_cast<int>(buffers_.size()) - 1, 0, ir::DType::kF32);
    }
    add_call(node, work);
  }

  void add_conv(const Node& node) {
    const ops::ConvSizes s = ops::conv_sizes(node);
    const Address result = address_of({const_cast<Node*>(&node), 0});
    const Address first = address_of(node.operand(0)), second = address_of(node.operand(1));
    ir::ConvStep work;
    work.dtype = node.types()[0].dtype;
    work.sizes = image_sizes(s);
    work.out_channels = s.out_channels;
    if (node.is("conv2d")) {
      work.x = first, work.weight = second, work.y = result;
    } else if (node.is("conv2d_backward_data")) {
      work.direction = ir::ConvStep::Direction::kBackwardData;
      work.y = first, work.weight = second, work.x = result;
    } else {
      work.direction = ir::ConvStep::Direction::kBackwardWeight;
      work.x = first, work.y = second, work.weight = result;
    }
    add_call(node, work);
  }

  void add_max_pool(const Node& node) {
    ir::MaxPoolStep work;
    work.is_backward = node.is("max_pool2d_backward");
    const Value x = node.operand(work.is_backward ? 1 : 0);
    const Value result{const_cast<Node*>(&node), 0};
    const ops::PoolSizes s = ops::pool_sizes(node, x.shape());
    work.dtype = x.dtype();
    work.sizes = image_sizes(s);
    work.x = address_of(x);
    work.y = address_of(work.is_backward ? node.operand(0) : result);
    if (work.is_backward) work.grad_x = address_of(result);
    add_call(node, work);
  }

  void add_call(const Node& node, decltype(ir::Step::work) work) {
    ir::Step& step = add_step(node, std::move(work));
    const ops::Cost cost = ops::cost_of(node);
    step.flops = cost.flops;
    step.bytes_moved = step.bytes_least = static_cast<int64_t>(cost.bytes);
    step.name += node.op();
  }

  void add_collective(const Node& node) {
    const Value result{const_cast<Node*>(&node), 0};
    ir::CollectiveStep work = ops::collective_step(node);
    work.to = address_of(result);
    work.from = ops::has_trait(node, ops::kInPlace) ? work.to : address_of(node.operand(0));
    std::vector<int> waits;  // the lane may begin when compute has come this far
    for (int at = static_cast<int>(program_.steps.size()) - 1; at >= 0 && waits.empty(); --at) {
      if (program_.steps[at].lane == ir::Lane::kCompute) waits.push_back(at);
    }
    ir::Step& step = add_step(node, std::move(work));
    step.lane = ir::Lane::kCommunication;
    step.waits = std::move(waits);
    step.bytes_moved = step.bytes_least = std::get<ir::CollectiveStep>(step.work).num_bytes();
    starts_[&node] = static_cast<int>(program_.steps.size()) - 1;
    if (axes_of_stages_.contains(node.attribute<std::string>("axis"))) {
      step.name = name_between_stages(node);
      return;
    }
    const std::string unit = node.attribute_or("unit", std::string());
    const auto scope_of = [&](Value operand) {
      return unit.empty() ? operand.node->provenance().scope : unit;
    };
    const std::string first = scope_of(node.operands().front());
    const std::string last = scope_of(node.operands().back());
    step.name = fmt::format("{} {}", kind_name(std::get<ir::CollectiveStep>(step.work).kind),
                            starts_.size() - 1);
    if (!first.empty()) step.name += ": " + first;
    if (last != first && !last.empty()) step.name += " .. " + last;
  }

  // Ranks whose steps differ call it the same: communicators compare names.
  std::string name_between_stages(const Node& node) {
    const ir::CollectiveStep work = ops::collective_step(node);
    if (work.is_transfer()) return node.attribute_or("tag", std::string("transfer"));
    return fmt::format("{} {} over {}", kind_name(work.kind), num_between_stages_++, work.axis);
  }

  void add_wait(const Node& node) {
    const int start = starts_.at(node.operand(0).node);
    const auto& collective = std::get<ir::CollectiveStep>(program_.steps[start].work);
    ir::Step& step = add_step(node, ir::WaitStep{collective.from, collective.to});
    step.waits = {start};
    step.name = "wait for " + program_.steps[start].name;
  }

  void add_tensors() {
    for (Node* input : graph_.inputs()) {
      program_.inputs.push_back({input->name(), input->types()[0], address_of(input->result())});
    }
    for (Node* state : graph_.states()) {
      program_.states.push_back({state->name(), state->types()[0], address_of(state->result()),
                                 ir::parse_role(state->attribute<std::string>("role")).value()});
    }
    for (size_t i = 0; i < layout_.outputs.size(); ++i) {
      const Value value = layout_.outputs[i];
      program_.outputs.push_back({graph_.outputs()[i].name, value.type(), address_of(value)});
    }
  }

  const ir::Graph& graph_;
  const passes::Layout& layout_;
  const ir::DeviceSpec& device_;
  const bool deterministic_;
  const ir::Program* const like_;
  size_t next_to_follow_ = 0;  // step of like_
  std::vector<passes::LayoutBuffer> buffers_;
  ir::Program program_;
  std::unordered_map<std::string, size_t> kernels_;  // by Loop text
  ir::GraphTable bodies_;                            // of kernels, told apart by structure
  std::map<std::vector<int64_t>, Lowered> lowered_;  // by body, strides and the Loop followed
  std::unordered_map<const Node*, int> starts_;      // step of each collective
  const std::set<std::string> axes_of_stages_ = ops::axes_of_transfers(graph_);
  int num_between_stages_ = 0;
};

}  // namespace

UnplacedProgram build_unplaced_program(const ir::Graph& graph, const passes::Layout& layout,
                                       const ir::DeviceSpec& device, bool deterministic,
                                       const ir::Program* like) {
  return ProgramBuilder(graph, layout, device, deterministic, like).run();
}

ir::Program build_program(const ir::Graph& graph, const passes::Layout& layout,
                          const ir::DeviceSpec& device) {
  UnplacedProgram built = build_unplaced_program(graph, layout, device);
  assign_memory(built.program, built.buffers);
  return std::move(built.program);
}

}  // namespace monograph::compiler
