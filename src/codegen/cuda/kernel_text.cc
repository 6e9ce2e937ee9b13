#include "codegen/cuda/kernel_text.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace monograph::codegen::cuda {
namespace {

using ir::Access;
using ir::Domain;
using ir::Instruction;
using ir::Loop;
using Kind = ir::InstructionKind;

// In place means: at the same elements, so of the same size and with the same strides.
bool has_same_strides(const Access& a, const Access& b) {
  const auto stride = [](const Access& access, size_t axis) {
    return axis < access.row_strides.size() ? access.row_strides[axis] : 0;
  };
  const size_t axes = std::max(a.row_strides.size(), b.row_strides.size());
  for (size_t axis = 0; axis < axes; ++axis) {
    if (stride(a, axis) != stride(b, axis)) return false;
  }
  return a.inner_stride == b.inner_stride;
}

std::vector<bool> changing_buffers(const Loop& loop) {
  const auto element_bytes = [&](const Instruction& i) {
    return ir::dtype_bytes(loop.buffers[i.access.buffer].dtype);
  };
  std::vector<bool> changing(loop.buffers.size(), false);
  for (size_t b = 0; b < loop.buffers.size(); ++b) {
    changing[b] = loop.buffers[b].use != ir::LoopBuffer::Use::kInput;
  }
  for (const Instruction& load : loop.instructions) {
    if (load.kind != Kind::kLoad) continue;
    for (const Instruction& store : loop.instructions) {
      const bool meets = store.kind == Kind::kStore &&
                         element_bytes(load) == element_bytes(store) &&
                         has_same_strides(load.access, store.access);
      if (meets) changing[load.access.buffer] = true;
    }
  }
  return changing;
}

}  // namespace

bool is_sink(const Instruction& i) {
  return i.kind == Kind::kStore || i.kind == Kind::kAccumulate;
}

bool has_address(const Instruction& i) {
  return i.kind != Kind::kConstant && i.kind != Kind::kApply && i.kind != Kind::kReduce;
}

bool varies_by_row(const Access& access) {
  return access.index >= 0 || std::any_of(access.row_strides.begin(), access.row_strides.end(),
                                          [](int64_t stride) { return stride != 0; });
}

KernelText::KernelText(const Loop& loop, const ir::DeviceSpec& device)
    : loop_(loop),
      map_(map_threads(loop, device)),
      plan_(loop),
      types_(loop),
      uses_axis_(loop.row_extents.size(), false),
      may_change_(changing_buffers(loop)) {
  bool sums = false, sums_all = false;
  for (const Instruction& i : loop.instructions) {
    sums |= i.kind == Kind::kAccumulate;
    sums_all |= i.kind == Kind::kAccumulate && !i.keeps_inner;
    if (!has_address(i) || steps_evenly(i.access)) continue;
    for (size_t axis = 0; axis < uses_axis_.size(); ++axis) {
      if (stride(i.access, axis) != 0) uses_axis_[axis] = true;
    }
  }
  find_rounded();
  const bool is_given = map_.tiles_columns ? sums_all : sums;
  num_blocks_ = is_given ? loop.num_blocks : map_.num_blocks;
}

void KernelText::find_rounded() {
  for (int id = 0; id < size(); ++id) {
    const Instruction& i = at(id);
    const bool is_load = i.kind == Kind::kLoad && ir::dtype_bytes(dtype_of(i)) == 2;
    const bool passes_on = i.kind == Kind::kApply || i.kind == Kind::kReduce;
    is_rounded_.push_back(
        i.type == ir::RegisterType::kF32 &&
        (is_load || (passes_on && std::any_of(i.operands.begin(), i.operands.end(),
                                              [&](int operand) { return is_rounded_[operand]; }))));
  }
}

// --- places

int64_t KernelText::stride(const Access& access, size_t axis) const {
  return axis < access.row_strides.size() ? access.row_strides[axis] : 0;
}

bool KernelText::steps_evenly(const Access& access) const {
  for (size_t axis = 0; axis + 1 < loop_.row_extents.size(); ++axis) {
    if (stride(access, axis) != stride(access, axis + 1) * loop_.row_extents[axis + 1])
      return false;
  }
  return true;
}

bool KernelText::is_wide(const Access& access) const {
  if (access.index >= 0) return true;  // nothing is known of it
  __extension__ typedef __int128 Wide;
  const auto size = [](int64_t value) { return Wide{value < 0 ? -value : value}; };
  Wide reach = size(access.offset) + size(access.inner_stride) * loop_.inner_extent;
  for (size_t axis = 0; axis < loop_.row_extents.size(); ++axis) {
    reach += size(stride(access, axis)) * loop_.row_extents[axis];
  }
  return reach > INT32_MAX;
}

std::string KernelText::start(const Access& access) const {
  const std::string_view suffix = is_wide(access) ? "L" : "";
  std::vector<std::string> terms;
  const auto add = [&](int64_t step, const std::string& name) {
    if (step == 0) return;
    terms.push_back(step == 1 ? name : fmt::format("{}{} * {}", step, suffix, name));
  };
  if (steps_evenly(access)) {
    if (!loop_.row_extents.empty()) add(stride(access, loop_.row_extents.size() - 1), "row");
  } else {
    for (size_t axis = 0; axis < loop_.row_extents.size(); ++axis) {
      add(stride(access, axis), fmt::format("r{}", axis));
    }
  }
  if (access.index >= 0) add(access.index_stride, operand(access.index, CType::kLong));
  if (access.offset != 0 || terms.empty()) {
    terms.push_back(fmt::format("{}{}", access.offset, suffix));
  }
  return fmt::format("{}", fmt::join(terms, " + "));
}

std::string KernelText::element(const Access& access, const std::string& column) const {
  if (access.inner_stride == 0) return start(access);
  const std::string step = access.inner_stride == 1 ? column
                           : is_wide(access)
                               ? fmt::format("{}L * ({})", access.inner_stride, column)
                               : fmt::format("{} * ({})", access.inner_stride, column);
  const std::string first = start(access);
  return first == "0" || first == "0L" ? step : first + " + " + step;
}

std::vector<std::string> KernelText::row_index_lines() const {
  std::vector<std::string> lines;
  int64_t below = 1;  // rows a step of this axis
  for (size_t axis = loop_.row_extents.size(); axis-- > 0;) {
    if (uses_axis_[axis]) {
      std::string text = below == 1 ? "row" : fmt::format("row / {}", below);
      if (axis > 0) text += fmt::format(" % {}", loop_.row_extents[axis]);
      lines.push_back(fmt::format("const {} r{} = {};", row_type(), axis, text));
    }
    below *= loop_.row_extents[axis];
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

std::string_view KernelText::row_type() const {
  return loop_.num_rows() < INT32_MAX / 2 ? "int" : "long";
}

std::string_view KernelText::column_type() const {
  return loop_.inner_extent < INT32_MAX / 2 ? "int" : "long";
}

// --- values

std::string KernelText::operand(int id, CType wanted) const {
  if (at(id).kind == Kind::kConstant) {
    const std::string constant = constant_text(at(id).value, wanted);
    return constant[0] == '-' ? "(" + constant + ")" : constant;
  }
  if (wanted == CType::kInt && types_.of(id) == CType::kLong) {
    return types_.fits_int(id) ? fmt::format("(int)v{}", id) : fmt::format("n{}", id);
  }
  return fmt::format("v{}", id);
}

std::string KernelText::apply(int id) const {
  const Instruction& i = at(id);
  const CType operation = types_.operation_type(id);
  std::vector<std::string> operands;
  for (size_t o = 0; o < i.operands.size(); ++o) {
    const bool is_condition = i.op == ir::ScalarOp::kWhere && o == 0;
    operands.push_back(operand(i.operands[o], is_condition ? CType::kBool : operation));
  }
  if (operation == CType::kFloat && is_rounded_[i.operands[0]]) {
    if (i.op == ir::ScalarOp::kExp) return fmt::format("exp_of_rounded({})", operands[0]);
    if (i.op == ir::ScalarOp::kTanh) return fmt::format("tanh_of_rounded({})", operands[0]);
  }
  if (operation == CType::kFloat && i.op == ir::ScalarOp::kDiv && is_rounded_[id]) {
    return fmt::format("divide_rounded({}, {})", operands[0], operands[1]);
  }
  return apply_text(i, operation, types_.of(id), operands);
}

std::string KernelText::random(int id, const std::string& element) const {
  return fmt::format("philox_one({}, {}, {}, {})", element, operand(at(id).operands[0]),
                     operand(at(id).operands[1]), operand(at(id).operands[2]));
}

std::string KernelText::row_value(int id) const {
  const Instruction& i = at(id);
  switch (i.kind) {
    case Kind::kLoad:
      return load_text(dtype_of(i), fmt::format("b{}[{}]", i.access.buffer, start(i.access)));
    case Kind::kIndex:
      return start(i.access);
    case Kind::kArgument:
      return fmt::format("scalar{}", i.argument);
    case Kind::kPhilox:
      return random(id, start(i.access));
    default:
      return apply(id);
  }
}

bool KernelText::is_along_row(int id) const {
  const Instruction& i = at(id);
  const bool has_start = i.kind == Kind::kLoad || i.kind == Kind::kIndex || i.kind == Kind::kPhilox;
  return has_start && i.domain == Domain::kElement && i.access.inner_stride == 0;
}

void KernelText::declare(SourceWriter& out, int id, const std::string& value) const {
  out.line("const {} v{} = {};", c_type(id), id, value);
  if (types_.is_narrowed(id)) out.line("const int n{0} = narrow(v{0});", id);
}

bool KernelText::makes_packs(int id) const {
  const Access& access = at(id).access;
  if (at(id).kind != Kind::kPhilox || access.inner_stride != 1 || map_.width % 4 != 0) return false;
  return access.offset % 4 == 0 && (access.index < 0 || access.index_stride % 4 == 0) &&
         std::all_of(access.row_strides.begin(), access.row_strides.end(),
                     [](int64_t stride) { return stride % 4 == 0; });
}

std::string KernelText::parameters() const {
  std::vector<std::string> texts;
  for (size_t b = 0; b < loop_.buffers.size(); ++b) {
    const bool is_input = loop_.buffers[b].use == ir::LoopBuffer::Use::kInput;
    texts.push_back(fmt::format("{}{}* b{}", is_input ? "const " : "",
                                storage_type_name(loop_.buffers[b].dtype), b));
  }
  for (int k = 0; k < loop_.num_scalars(); ++k) texts.push_back(fmt::format("long scalar{}", k));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string_view KernelText::op_name(const Instruction& i) const {
  return i.reduction == ir::Reduction::kSum ? "Sum" : "Max";
}

std::string KernelText::combined(int id, const std::string& a, const std::string& b) const {
  if (at(id).reduction == ir::Reduction::kSum) return fmt::format("{} + {}", a, b);
  return fmt::format("max_of<{}>({}, {})", c_type(id), a, b);
}

std::string KernelText::zero(int id) const {
  return fmt::format("{}::zero<{}>()", op_name(at(id)), c_type(id));
}

}  // namespace monograph::codegen::cuda
