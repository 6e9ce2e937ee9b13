#include "frontend/session/tensor_view.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"

namespace monograph::session {
namespace {

// Axes from the largest stride to the smallest; axes of one element where they were.
std::vector<int64_t> axes_by_stride(const TensorView& view) {
  std::vector<int64_t> axes(view.strides.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::stable_sort(axes.begin(), axes.end(),
                   [&](int64_t a, int64_t b) { return view.strides[a] > view.strides[b]; });
  return axes;
}

ir::Shape permuted(const ir::Shape& shape, const std::vector<int64_t>& order) {
  std::vector<int64_t> dims;
  for (const int64_t axis : order) dims.push_back(shape[static_cast<int>(axis)]);
  return ir::Shape(std::move(dims));
}

bool is_dense(const TensorView& view, const std::vector<int64_t>& order) {
  const std::vector<int64_t> expected = permuted(view.type.shape, order).contiguous_strides();
  for (size_t i = 0; i < order.size(); ++i) {
    const auto axis = static_cast<int>(order[i]);
    if (view.type.shape[axis] != 1 && view.strides[axis] != expected[i]) return false;
  }
  return true;
}

ir::Literal gather(const TensorView& view) {
  ir::Literal literal(view.type);
  const int64_t element_bytes = ir::dtype_bytes(view.type.dtype);
  const std::vector<int64_t> steps = view.type.shape.contiguous_strides();
  for (int64_t i = 0; i < literal.num_elements(); ++i) {
    int64_t rest = i, position = 0;
    for (size_t axis = 0; axis < steps.size(); ++axis) {
      position += rest / steps[axis] * view.strides[axis];
      rest %= steps[axis];
    }
    std::memcpy(literal.data() + i * element_bytes,
                static_cast<const std::byte*>(view.data) + position * element_bytes,
                static_cast<size_t>(element_bytes));
  }
  return literal;
}

}  // namespace

InputCopy copy_input(const TensorView& view, const std::string& name) {
  if (view.device != kHostDevice) {
    throw_user_error(
        "input '{}' device: expected {}, got {}: copy it to host memory before the call", name,
        kHostDevice, view.device);
  }
  const auto rank = static_cast<size_t>(view.type.shape.rank());
  if (!view.strides.empty() && view.strides.size() != rank) {
    throw_user_error("input '{}' is {} with {} strides: give one stride an axis, or none", name,
                     view.type.str(), view.strides.size());
  }
  std::vector<int64_t> order;
  if (!view.strides.empty()) {
    order = axes_by_stride(view);
    if (!is_dense(view, order)) return {gather(view), {}};
    if (std::is_sorted(order.begin(), order.end())) order.clear();
  }
  const ir::Shape shape = order.empty() ? view.type.shape : permuted(view.type.shape, order);
  InputCopy copy{ir::Literal({view.type.dtype, shape}), std::move(order)};
  if (view.type.num_bytes() > 0) {
    std::memcpy(copy.literal.data(), view.data, static_cast<size_t>(view.type.num_bytes()));
  }
  return copy;
}

}  // namespace monograph::session
