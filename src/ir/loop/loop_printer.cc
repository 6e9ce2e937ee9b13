#include <fmt/ranges.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "ir/loop/loop.h"

// Loop::str(): the grammar is in docs/loop.md.
namespace monograph::ir {
namespace {

constexpr std::array<std::string_view, 4> kRegisterTypes = {"f32", "f64", "i64", "bool"};
constexpr std::array<std::string_view, 3> kDomains = {"scalar", "row", "element"};
constexpr std::array<std::string_view, 3> kUses = {"input", "output", "workspace"};

std::string values_text(const std::vector<int>& ids) {
  return ids.empty() ? "" : fmt::format("%{}", fmt::join(ids, ", %"));
}

// "8192*r0 + r1 + j + 5", "0" when empty.
std::string terms_text(const Access& access) {
  std::string text;
  const auto add = [&](int64_t stride, const std::string& name) {
    if (stride == 0) return;
    if (!text.empty()) text += " + ";
    text += stride == 1 ? name : fmt::format("{}*{}", stride, name);
  };
  for (size_t d = 0; d < access.row_strides.size(); ++d) {
    add(access.row_strides[d], fmt::format("r{}", d));
  }
  add(access.inner_stride, "j");
  if (access.index >= 0) add(access.index_stride, fmt::format("%{}", access.index));
  if (access.offset != 0 || text.empty()) {
    text += fmt::format("{}{}", text.empty() ? "" : " + ", access.offset);
  }
  return text;
}

std::string access_text(const Access& access) {
  return fmt::format("b{}[{}]", access.buffer, terms_text(access));
}

std::string constant_text(const Instruction& instruction) {
  if (instruction.type == RegisterType::kBool) return instruction.value != 0 ? "true" : "false";
  return fmt::format("{}",
                     instruction.value);  // the shortest text that reads back as the same number
}

// What is computed, without result and placement.
std::string computation_text(const Instruction& i) {
  switch (i.kind) {
    case InstructionKind::kConstant:
      return "constant " + constant_text(i);
    case InstructionKind::kLoad:
      return "load " + access_text(i.access);
    case InstructionKind::kIndex:
      return fmt::format("index [{}]", terms_text(i.access));
    case InstructionKind::kArgument:
      return fmt::format("argument {}", i.argument);
    case InstructionKind::kPhilox:
      return fmt::format("philox({}) [{}]", values_text(i.operands), terms_text(i.access));
    case InstructionKind::kApply:
      return fmt::format("{}({})", scalar_op_name(i.op), values_text(i.operands));
    case InstructionKind::kReduce:
      return fmt::format("reduce_{}({})", i.reduction == Reduction::kSum ? "sum" : "max",
                         values_text(i.operands));
    case InstructionKind::kSegmentSum: {
      Access values = i.access;
      values.index = -1;
      return fmt::format("segment_sum({}) {} order {} b{}", values_text(i.operands),
                         access_text(values), i.access.index_stride, i.order_buffer);
    }
    case InstructionKind::kStore:
      return fmt::format("store {} = {}", access_text(i.access), values_text(i.operands));
    case InstructionKind::kAccumulate:
      return fmt::format("accumulate_{} {} = {}", i.reduction == Reduction::kSum ? "sum" : "max",
                         access_text(i.access), values_text(i.operands));
  }
  throw_internal_error("Loop: instruction kind {}", static_cast<int>(i.kind));
}

bool is_sink(const Instruction& instruction) {
  return instruction.kind == InstructionKind::kStore ||
         instruction.kind == InstructionKind::kAccumulate;
}

// A sweep means something for row values, sinks and kept elements; elsewhere it is not printed, so
// that it cannot make equal kernels differ.
bool has_sweep(const Instruction& i) {
  if (i.kind == InstructionKind::kConstant) return false;
  if (i.domain == Domain::kScalar) return false;
  return i.domain == Domain::kRow || is_sink(i) || i.keep;
}

std::string instruction_text(const Instruction& i, size_t number) {
  std::string text = "  ";
  if (!is_sink(i)) text += fmt::format("%{} = ", number);
  text += fmt::format("{} {} {}", kDomains[static_cast<size_t>(i.domain)],
                      kRegisterTypes[static_cast<size_t>(i.type)], computation_text(i));
  if (i.keeps_inner) text += " keeps_inner";
  if (i.keep) text += " keep";
  if (has_sweep(i)) text += fmt::format(" @{}", i.sweep);
  return text + "\n";
}

}  // namespace

std::string Loop::str() const {
  std::string text =
      fmt::format("loop rows [{}] inner {} blocks {} of {} sweeps {}", fmt::join(row_extents, ","),
                  inner_extent, num_blocks, split == Split::kRows ? "rows" : "inner", num_sweeps);
  if (partials_buffer >= 0) {
    text += fmt::format(" partials b{} [{}]", partials_buffer, fmt::join(partial_offsets, ","));
  }
  text += " {\n";
  for (size_t b = 0; b < buffers.size(); ++b) {
    const LoopBuffer& buffer = buffers[b];
    text += fmt::format("  b{} = {} {}", b, kUses[static_cast<size_t>(buffer.use)],
                        dtype_name(buffer.dtype));
    if (buffer.use == LoopBuffer::Use::kWorkspace)
      text += fmt::format(" [{}]", buffer.num_elements);
    if (buffer.alignment > 0) text += fmt::format(" aligned {}", buffer.alignment);
    text += "\n";
  }
  for (size_t i = 0; i < instructions.size(); ++i) text += instruction_text(instructions[i], i);
  return text + "}\n";
}

}  // namespace monograph::ir
