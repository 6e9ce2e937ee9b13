#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace monograph::ir {

// Element types. Arithmetic inside a kernel is float32 (float64 for f64); bf16 and f16 are storage.
enum class DType : uint8_t { kBool, kU8, kU16, kI32, kI64, kBF16, kF16, kF32, kF64 };

int64_t dtype_bytes(DType dtype);
std::string_view dtype_name(DType dtype);  // "f32"
DType parse_dtype(std::string_view name);  // UserError names the valid ones
bool is_floating(DType dtype);
bool is_integer(DType dtype);  // bool is neither

// A shape, row-major. A scalar has rank 0. A symbolic dim, when there is one, stands here at its
// maximum: offsets are planned for the maximum once.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int axis) const { return dims_[axis < 0 ? axis + rank() : axis]; }
  int64_t operator[](int axis) const { return dim(axis); }
  const std::vector<int64_t>& dims() const { return dims_; }
  int64_t num_elements() const;
  std::vector<int64_t> contiguous_strides() const;  // in elements
  std::string str() const;                          // "[2,3]"
  bool operator==(const Shape&) const = default;

 private:
  std::vector<int64_t> dims_;
};

// Numpy broadcasting, aligned at the right. Empty optional-like: throws UserError prefixed "[op]".
Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b);
bool broadcasts_to(const Shape& from, const Shape& to);

// Strides (in elements, row-major view of a value of shape `from`) when it is read at every index
// of `to`: zero where a dim is broadcast.
std::vector<int64_t> broadcast_strides(const Shape& from, const std::vector<int64_t>& strides,
                                       const Shape& to);

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  int64_t num_elements() const { return shape.num_elements(); }
  int64_t num_bytes() const { return num_elements() * dtype_bytes(dtype); }
  std::string str() const;  // "f32[2,3]"
  bool operator==(const TensorType&) const = default;
};

}  // namespace monograph::ir
