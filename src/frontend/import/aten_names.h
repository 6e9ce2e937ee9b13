#pragma once

#include <span>
#include <string_view>

namespace monograph::import {

// How an operator of PyTorch's core ATen set is written here.
struct AtenName {
  std::string_view name;   // without "torch.ops.": "aten.mm.default"
  std::string_view nodes;  // ops of the registry that it becomes, "sum mul", in no order
};

// Sorted by name. An operator of the same name and meaning has one node; the others are the
// compositions of frontend/trace/functions.h.
std::span<const AtenName> aten_names();
const AtenName* find_aten_name(std::string_view name);  // null: not covered

}  // namespace monograph::import
