#include "codegen/cpu/addresses.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/value_types.h"

namespace monograph::codegen {
namespace {

constexpr int64_t kColumnAlignment = 16;  // a cache line of floats: blocks share none

bool has_address(const ir::Instruction& i) {
  return i.kind != ir::InstructionKind::kConstant && i.kind != ir::InstructionKind::kApply &&
         i.kind != ir::InstructionKind::kReduce;
}

}  // namespace

Addresses::Addresses(const ir::Loop& loop, const ir::Loop& bounds)
    : loop_(loop), bounds_(bounds), is_used_(loop.row_extents.size(), false) {
  for (const ir::Instruction& i : loop.instructions) {
    if (!has_address(i) || steps_evenly(i.access)) continue;
    for (size_t axis = 0; axis < is_used_.size(); ++axis) {
      if (stride(i.access, axis) != 0) is_used_[axis] = true;
    }
  }
}

int64_t Addresses::stride(const ir::Access& access, size_t axis) const {
  return axis < access.row_strides.size() ? access.row_strides[axis] : 0;
}

bool Addresses::steps_evenly(const ir::Access& access) const {
  for (size_t axis = 0; axis + 1 < loop_.row_extents.size(); ++axis) {
    if (stride(access, axis) != stride(access, axis + 1) * loop_.row_extents[axis + 1])
      return false;
  }
  return true;
}

std::string Addresses::first(const ir::Access& access) const {
  std::vector<std::string> terms;
  const auto add = [&](int64_t stride, const std::string& name) {
    if (stride == 0) return;
    terms.push_back(stride == 1 ? name : fmt::format("{}L * {}", stride, name));
  };
  if (steps_evenly(access)) {
    if (!loop_.row_extents.empty()) add(stride(access, loop_.row_extents.size() - 1), "row");
  } else {
    for (size_t axis = 0; axis < loop_.row_extents.size(); ++axis) {
      add(stride(access, axis), fmt::format("r{}", axis));
    }
  }
  if (splits_inner()) add(access.inner_stride, "low");
  if (access.index >= 0) {
    const ir::Instruction& index = loop_.instructions[access.index];
    const bool is_constant = index.kind == ir::InstructionKind::kConstant;
    add(access.index_stride,
        is_constant ? constant_text(index.value, CType::kLong) : fmt::format("v{}", access.index));
  }
  if (access.offset != 0 || terms.empty()) terms.push_back(fmt::format("{}", access.offset));
  return fmt::format("{}", fmt::join(terms, " + "));
}

std::vector<std::string> Addresses::row_index_lines() const {
  std::vector<std::string> lines;
  int64_t below = 1;  // rows a step of this axis
  for (size_t axis = loop_.row_extents.size(); axis-- > 0;) {
    const int64_t extent = loop_.row_extents[axis];
    if (is_used_[axis]) {
      std::string text = below == 1 ? "row" : fmt::format("row / {}", below);
      if (axis > 0) text += fmt::format(" % {}", extent);
      lines.push_back(fmt::format("const {} r{} = {};", row_type(), axis, text));
    }
    below *= extent;
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

std::string_view Addresses::row_type() const {
  return bounds_.num_rows() < INT32_MAX ? "int" : "long";
}

bool Addresses::splits_inner() const {
  return loop_.split == ir::Loop::Split::kInner && loop_.num_blocks > 1;
}

int64_t Addresses::capacity() const {
  if (!splits_inner()) return bounds_.inner_extent;
  const int64_t even = (bounds_.inner_extent + loop_.num_blocks - 1) / loop_.num_blocks;
  return (even + kColumnAlignment - 1) / kColumnAlignment * kColumnAlignment;
}

std::string Addresses::length() const {
  return splits_inner() ? "length" : fmt::format("{}", loop_.inner_extent);
}

std::string_view Addresses::column_type() const {
  return bounds_.inner_extent < INT32_MAX ? "int" : "long";
}

}  // namespace monograph::codegen
