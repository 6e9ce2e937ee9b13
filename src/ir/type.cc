#include "ir/type.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace monograph::ir {
namespace {

struct DTypeFacts {
  DType dtype;
  std::string_view name;
  int64_t num_bytes;
};
constexpr std::array<DTypeFacts, 9> kDTypes = {{{DType::kBool, "bool", 1},
                                                {DType::kU8, "u8", 1},
                                                {DType::kU16, "u16", 2},
                                                {DType::kI32, "i32", 4},
                                                {DType::kI64, "i64", 8},
                                                {DType::kBF16, "bf16", 2},
                                                {DType::kF16, "f16", 2},
                                                {DType::kF32, "f32", 4},
                                                {DType::kF64, "f64", 8}}};

const DTypeFacts& facts(DType dtype) {
  return kDTypes[static_cast<size_t>(dtype)];
}

}  // namespace

int64_t dtype_bytes(DType dtype) {
  return facts(dtype).num_bytes;
}
std::string_view dtype_name(DType dtype) {
  return facts(dtype).name;
}

DType parse_dtype(std::string_view name) {
  for (const DTypeFacts& fact : kDTypes) {
    if (fact.name == name) return fact.dtype;
  }
  throw_user_error("unknown dtype '{}': use bool, u8, u16, i32, i64, bf16, f16, f32 or f64", name);
}

bool is_floating(DType dtype) {
  return dtype >= DType::kBF16;
}
bool is_integer(DType dtype) {
  return dtype > DType::kBool && dtype < DType::kBF16;
}

int64_t Shape::num_elements() const {
  int64_t count = 1;
  for (int64_t dim : dims_) count *= dim;
  return count;
}

std::vector<int64_t> Shape::contiguous_strides() const {
  std::vector<int64_t> strides(dims_.size());
  int64_t stride = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= dims_[axis];
  }
  return strides;
}

std::string Shape::str() const {
  return fmt::format("[{}]", fmt::join(dims_, ","));
}

Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims(rank, 1);
  for (int axis = 1; axis <= rank; ++axis) {
    const int64_t x = axis <= a.rank() ? a[-axis] : 1;
    const int64_t y = axis <= b.rank() ? b[-axis] : 1;
    if (x != y && x != 1 && y != 1) {
      throw_user_error(
          "[{}] shapes {} and {} do not broadcast: dims {} and {} differ and neither is 1", op,
          a.str(), b.str(), x, y);
    }
    dims[rank - axis] = x == 1 ? y : x;
  }
  return Shape(std::move(dims));
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return false;
  for (int axis = 1; axis <= from.rank(); ++axis) {
    if (from[-axis] != to[-axis] && from[-axis] != 1) return false;
  }
  return true;
}

std::vector<int64_t> broadcast_strides(const Shape& from, const std::vector<int64_t>& strides,
                                       const Shape& to) {
  std::vector<int64_t> result(to.rank(), 0);
  for (int axis = 1; axis <= from.rank(); ++axis) {
    if (from[-axis] != 1) result[to.rank() - axis] = strides[from.rank() - axis];
  }
  return result;
}

std::string TensorType::str() const {
  return std::string(dtype_name(dtype)) + shape.str();
}

}  // namespace monograph::ir
