#include "ir/node_bytes.h"

#include <bit>

namespace monograph::ir {

void NodeBytes::add(const std::vector<int64_t>& list) {
  add(static_cast<int64_t>(list.size()));
  const size_t num_bytes = list.size() * sizeof(int64_t);
  if (num_bytes > 0) std::memcpy(grow(num_bytes), list.data(), num_bytes);
}

void NodeBytes::add(const TensorType& type) {
  add(static_cast<int64_t>(type.dtype));
  add(type.shape.dims());
}

void NodeBytes::add(const Attributes& attributes) {
  add(static_cast<int64_t>(attributes.size()));
  for (const auto& [name, attribute] : attributes) {
    add(std::string_view(name));
    add_value(attribute);
  }
}

void NodeBytes::add_value(const Attribute& attribute) {
  add(static_cast<int64_t>(attribute.index()));
  if (const auto* flag = std::get_if<bool>(&attribute)) add(static_cast<int64_t>(*flag));
  if (const auto* number = std::get_if<int64_t>(&attribute)) add(*number);
  if (const auto* real = std::get_if<double>(&attribute)) add(std::bit_cast<int64_t>(*real));
  if (const auto* text = std::get_if<std::string>(&attribute)) add(std::string_view(*text));
  if (const auto* dtype = std::get_if<DType>(&attribute)) add(static_cast<int64_t>(*dtype));
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute)) add(*list);
  if (const auto* shapes = std::get_if<std::vector<Shape>>(&attribute)) {
    add(static_cast<int64_t>(shapes->size()));
    for (const Shape& shape : *shapes) add(shape.dims());
  }
}

}  // namespace monograph::ir
