#include "ir/literal.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace monograph::ir {
namespace {

float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t float_to_bf16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float f16_to_float(uint16_t bits) {
  _Float16 value;
  std::memcpy(&value, &bits, sizeof bits);
  return static_cast<float>(value);
}

uint16_t float_to_f16(float value) {
  const _Float16 rounded = static_cast<_Float16>(value);
  uint16_t bits;
  std::memcpy(&bits, &rounded, sizeof bits);
  return bits;
}

template <typename T>
T read(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void write(std::byte* data, int64_t index, T value) {
  std::memcpy(data + index * sizeof(T), &value, sizeof(T));
}

}  // namespace

double round_to(DType dtype, double value) {
  Literal one(TensorType{dtype, {}});
  one.set(0, value);
  return one.get(0);
}

Literal::Literal(TensorType type) : type_(std::move(type)), data_(type_.num_bytes()) {}

Literal Literal::scalar(DType dtype, double value) {
  Literal result(TensorType{dtype, {}});
  result.set(0, value);
  return result;
}

Literal Literal::from(TensorType type, const std::function<double(int64_t)>& element) {
  Literal result(std::move(type));
  for (int64_t i = 0; i < result.num_elements(); ++i) result.set(i, element(i));
  return result;
}

Literal Literal::from_i64(Shape shape, std::vector<int64_t> values) {
  Literal result(TensorType{DType::kI64, std::move(shape)});
  check(static_cast<int64_t>(values.size()) == result.num_elements(), "Literal: {} values for {}",
        values.size(), result.type().str());
  std::memcpy(result.data(), values.data(), result.data_.size());
  return result;
}

Literal Literal::from_f32(Shape shape, const std::vector<float>& values) {
  Literal result(TensorType{DType::kF32, std::move(shape)});
  check(static_cast<int64_t>(values.size()) == result.num_elements(), "Literal: {} values for {}",
        values.size(), result.type().str());
  std::memcpy(result.data(), values.data(), result.data_.size());
  return result;
}

double Literal::get(int64_t index) const {
  const std::byte* data = data_.data();
  switch (type_.dtype) {
    case DType::kBool:
    case DType::kU8:
      return read<uint8_t>(data, index);
    case DType::kU16:
      return read<uint16_t>(data, index);
    case DType::kI32:
      return read<int32_t>(data, index);
    case DType::kI64:
      return static_cast<double>(read<int64_t>(data, index));
    case DType::kBF16:
      return bf16_to_float(read<uint16_t>(data, index));
    case DType::kF16:
      return f16_to_float(read<uint16_t>(data, index));
    case DType::kF32:
      return read<float>(data, index);
    case DType::kF64:
      return read<double>(data, index);
  }
  throw_internal_error("Literal::get: dtype {}", static_cast<int>(type_.dtype));
}

void Literal::set(int64_t index, double value) {
  std::byte* data = data_.data();
  switch (type_.dtype) {
    case DType::kBool:
      return write<uint8_t>(data, index, value != 0);
    case DType::kU8:
      return write(data, index, static_cast<uint8_t>(static_cast<int64_t>(value)));
    case DType::kU16:
      return write(data, index, static_cast<uint16_t>(static_cast<int64_t>(value)));
    case DType::kI32:
      return write(data, index, static_cast<int32_t>(static_cast<int64_t>(value)));
    case DType::kI64:
      return write(data, index, static_cast<int64_t>(value));
    case DType::kBF16:
      return write(data, index, float_to_bf16(static_cast<float>(value)));
    case DType::kF16:
      return write(data, index, float_to_f16(static_cast<float>(value)));
    case DType::kF32:
      return write(data, index, static_cast<float>(value));
    case DType::kF64:
      return write(data, index, value);
  }
}

int64_t Literal::get_i64(int64_t index) const {
  if (type_.dtype == DType::kI64) return read<int64_t>(data_.data(), index);
  return static_cast<int64_t>(get(index));
}

}  // namespace monograph::ir
