#include "compiler/program_numbers.h"

#include <fmt/ranges.h>

namespace monograph::compiler {
namespace {

using Visit = std::function<void(int64_t&)>;

void visit_shape(ir::TensorType& type, const Visit& visit) {
  std::vector<int64_t> dims = type.shape.dims();
  for (int64_t& dim : dims) visit(dim);
  type.shape = ir::Shape(std::move(dims));
}

void visit_all(std::vector<int64_t>& numbers, const Visit& visit) {
  for (int64_t& number : numbers) visit(number);
}

void visit_images(ir::ImageSizes& sizes, const Visit& visit) {
  for (int64_t* number : {&sizes.batch, &sizes.height, &sizes.width, &sizes.channels,
                          &sizes.out_height, &sizes.out_width}) {
    visit(*number);
  }
}

void visit_work(ir::KernelStep& step, const Visit& visit) {
  visit_all(step.scalars, visit);
}
void visit_work(ir::WaitStep&, const Visit&) {}

void visit_work(ir::GemmStep& step, const Visit& visit) {
  for (int64_t* number : {&step.m, &step.n, &step.k, &step.lda, &step.ldb, &step.ldc}) {
    visit(*number);
  }
  for (auto* list :
       {&step.batch, &step.batch_strides_a, &step.batch_strides_b, &step.batch_strides_c}) {
    visit_all(*list, visit);
  }
}

void visit_work(ir::SortIdsStep& step, const Visit& visit) {
  visit(step.num_positions);
  visit(step.num_ids);
}

void visit_work(ir::TopKStep& step, const Visit& visit) {
  for (int64_t* number : {&step.rows, &step.length, &step.k}) visit(*number);
}

// The number of splits is a decision; it is taken again at each size.
void visit_work(ir::AttentionStep& step, const Visit& visit) {
  for (int64_t* number :
       {&step.batch, &step.heads, &step.kv_heads, &step.queries, &step.keys, &step.width}) {
    visit(*number);
  }
  for (auto* tensor : {&step.q, &step.k, &step.v, &step.output, &step.logsumexp, &step.grad_output,
                       &step.grad_q, &step.grad_k, &step.grad_v}) {
    for (int64_t& stride : tensor->strides) visit(stride);
  }
}

void visit_work(ir::ConvStep& step, const Visit& visit) {
  visit_images(step.sizes, visit);
  visit(step.out_channels);
}

void visit_work(ir::MaxPoolStep& step, const Visit& visit) {
  visit_images(step.sizes, visit);
}

void visit_work(ir::CollectiveStep& step, const Visit& visit) {
  visit(step.count);
}

std::string flags_of(const ir::GemmStep& step) {
  return fmt::format("{} {} {} {} {} {} {} {}", step.transpose_a, step.transpose_b,
                     step.accumulates, step.has_bias, step.bias_along_rows, step.batch.size(),
                     ir::dtype_name(step.dtype), ir::dtype_name(step.result_dtype));
}
std::string flags_of(const ir::AttentionStep& step) {
  return fmt::format("{} {} {}", step.is_backward, step.causal, step.scale);
}
std::string flags_of(const ir::ConvStep& step) {
  return fmt::format("{} {} {} {}", static_cast<int>(step.direction),
                     fmt::join(step.sizes.kernel, "x"), fmt::join(step.sizes.stride, "x"),
                     fmt::join(step.sizes.padding, "x"));
}
std::string flags_of(const ir::MaxPoolStep& step) {
  return fmt::format("{} {}", step.is_backward, fmt::join(step.sizes.kernel, "x"));
}
std::string flags_of(const ir::CollectiveStep& step) {
  return fmt::format("{} {} {}", ir::kind_name(step.kind), step.axis,
                     ir::reduction_name(step.reduction));
}
template <typename Work>
std::string flags_of(const Work&) {
  return "";
}

}  // namespace

void for_each_number(ir::Program& program, const Visit& visit) {
  for (auto* tensors : {&program.inputs, &program.outputs}) {
    for (ir::ProgramTensor& tensor : *tensors) visit_shape(tensor.type, visit);
  }
  for (ir::Step& step : program.steps) {
    std::visit([&](auto& work) { visit_work(work, visit); }, step.work);
  }
}

void for_each_number(ir::Loop& loop, const Visit& visit) {
  visit_all(loop.row_extents, visit);
  visit(loop.inner_extent);
  visit_all(loop.partial_offsets, visit);
  for (ir::Instruction& instruction : loop.instructions) {
    ir::Access& access = instruction.access;
    visit(access.offset);
    visit_all(access.row_strides, visit);
    visit(access.inner_stride);
    visit(access.index_stride);
  }
}

std::vector<std::string> structure_of(const ir::Program& program) {
  std::vector<std::string> lines;
  for (const auto* tensors : {&program.inputs, &program.outputs}) {
    for (const ir::ProgramTensor& tensor : *tensors) {
      lines.push_back(fmt::format("{} {} {}", tensor.name, ir::dtype_name(tensor.type.dtype),
                                  tensor.type.shape.rank()));
    }
  }
  for (const ir::Step& step : program.steps) {
    lines.push_back(
        fmt::format("{} {} {} {}", step.name, step.work.index(), fmt::join(step.waits, ","),
                    std::visit([](const auto& work) { return flags_of(work); }, step.work)));
  }
  return lines;
}

}  // namespace monograph::compiler
