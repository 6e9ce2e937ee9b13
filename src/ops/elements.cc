#include "ops/elements.h"

#include <cstring>

#include "base/error.h"

namespace monograph::ops {
namespace {

template <typename From, typename To>
std::vector<To> cast_all(std::span<const From> elements) {
  return std::vector<To>(elements.begin(), elements.end());
}

template <typename From, typename To>
void assign_all(const std::vector<From>& from, std::span<To> to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<To>(from[i]);
}

}  // namespace

template <typename T>
std::vector<T> read_elements(const ir::Literal& literal) {
  switch (literal.type().dtype) {
    case ir::DType::kI32:
      return cast_all<int32_t, T>(literal.as<int32_t>());
    case ir::DType::kI64:
      return cast_all<int64_t, T>(literal.as<int64_t>());
    case ir::DType::kF32:
      return cast_all<float, T>(literal.as<float>());
    case ir::DType::kF64:
      return cast_all<double, T>(literal.as<double>());
    default:
      break;
  }
  std::vector<T> elements(literal.num_elements());
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<T>(literal.get(i));
  return elements;
}

template <typename T>
std::vector<T> read_broadcast(const ir::Literal& literal, const ir::Shape& shape) {
  const std::vector<T> elements = read_elements<T>(literal);
  if (literal.type().shape == shape) return elements;
  std::vector<T> spread;
  spread.reserve(shape.num_elements());
  for (int64_t position : broadcast_positions(literal.type().shape, shape)) {
    spread.push_back(elements[position]);
  }
  return spread;
}

template <typename T>
void write_elements(const std::vector<T>& elements, ir::Literal& literal) {
  check(static_cast<int64_t>(elements.size()) == literal.num_elements(), "{} elements for {}",
        elements.size(), literal.type().str());
  switch (literal.type().dtype) {
    case ir::DType::kI32:
      return assign_all(elements, literal.as<int32_t>());
    case ir::DType::kI64:
      return assign_all(elements, literal.as<int64_t>());
    case ir::DType::kF32:
      return assign_all(elements, literal.as<float>());
    case ir::DType::kF64:
      return assign_all(elements, literal.as<double>());
    default:
      break;
  }
  for (size_t i = 0; i < elements.size(); ++i) literal.set(i, static_cast<double>(elements[i]));
}

template std::vector<double> read_elements<double>(const ir::Literal&);
template std::vector<int64_t> read_elements<int64_t>(const ir::Literal&);
template std::vector<double> read_broadcast<double>(const ir::Literal&, const ir::Shape&);
template std::vector<int64_t> read_broadcast<int64_t>(const ir::Literal&, const ir::Shape&);
template void write_elements(const std::vector<double>&, ir::Literal&);
template void write_elements(const std::vector<int64_t>&, ir::Literal&);

std::vector<int64_t> strided_positions(const ir::Shape& shape, std::span<const int64_t> strides,
                                       int64_t offset) {
  std::vector<int64_t> positions{offset};
  for (int axis = 0; axis < shape.rank(); ++axis) {
    std::vector<int64_t> finer;
    finer.reserve(positions.size() * shape[axis]);
    for (int64_t position : positions) {
      for (int64_t i = 0; i < shape[axis]; ++i) finer.push_back(position + i * strides[axis]);
    }
    positions = std::move(finer);
  }
  return positions;
}

std::vector<int64_t> broadcast_positions(const ir::Shape& from, const ir::Shape& to) {
  return strided_positions(to, ir::broadcast_strides(from, from.contiguous_strides(), to));
}

void copy_from(const ir::Literal& source, const std::vector<int64_t>& positions,
               ir::Literal& result) {
  const size_t bytes = ir::dtype_bytes(source.type().dtype);
  for (size_t i = 0; i < positions.size(); ++i) {
    std::memcpy(result.data() + i * bytes, source.data() + positions[i] * bytes, bytes);
  }
}

void copy_to(const ir::Literal& source, const std::vector<int64_t>& positions,
             ir::Literal& result) {
  const size_t bytes = ir::dtype_bytes(source.type().dtype);
  for (size_t i = 0; i < positions.size(); ++i) {
    std::memcpy(result.data() + positions[i] * bytes, source.data() + i * bytes, bytes);
  }
}

}  // namespace monograph::ops
