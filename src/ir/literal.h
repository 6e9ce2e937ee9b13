#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "ir/type.h"

namespace monograph::ir {

// Rounds to the nearest even value of the dtype and back, as a store followed by a load does.
double round_to(DType dtype, double value);

// A tensor in host memory, dense and row-major, 64-byte aligned.
class Literal {
 public:
  Literal() = default;
  explicit Literal(TensorType type);  // zeros
  static Literal scalar(DType dtype, double value);
  static Literal from(TensorType type, const std::function<double(int64_t)>& element);
  static Literal from_i64(Shape shape, std::vector<int64_t> values);
  static Literal from_f32(Shape shape, const std::vector<float>& values);

  const TensorType& type() const { return type_; }
  int64_t num_elements() const { return type_.num_elements(); }
  std::byte* data() { return data_.data(); }
  const std::byte* data() const { return data_.data(); }
  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data_.data()), static_cast<size_t>(num_elements())};
  }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_.data()), static_cast<size_t>(num_elements())};
  }

  // Element `index` of the row-major order, whatever the dtype. `set` rounds to the dtype.
  double get(int64_t index) const;
  void set(int64_t index, double value);
  int64_t get_i64(int64_t index) const;  // exact for every integer dtype

  bool operator==(const Literal&) const = default;  // bitwise

 private:
  TensorType type_;
  std::vector<std::byte> data_;
};

}  // namespace monograph::ir
