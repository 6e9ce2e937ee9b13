#include "frontend/session/dynamic_inputs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"

namespace monograph::session {
namespace {

void check_dim(const Dim& dim, const std::string& input) {
  if (dim.min >= 1 && dim.multiple >= 1 && dim.max >= dim.min && dim.max >= dim.multiple) return;
  throw_user_error(
      "dynamic_shapes of input '{}': Dim '{}' of {}..{}, a multiple of {}: use 1 <= min <= max and "
      "a "
      "multiple from 1 to max",
      input, dim.name, dim.min, dim.max, dim.multiple);
}

void check_names(const DynamicShapes& shapes, std::span<const std::string> names) {
  for (const auto& [input, dims] : shapes) {
    if (std::find(names.begin(), names.end(), input) != names.end()) continue;
    throw_user_error("dynamic_shapes of an unknown input '{}': the function takes {}", input,
                     fmt::join(names, ", "));
  }
}

// Planned for the largest multiple in the range; for a range of few sizes, for some more.
ir::DynamicSize planned(const Dim& dim) {
  const int64_t step = dim.multiple;
  const int64_t least = (dim.min + step - 1) / step * step, most = dim.max / step * step;
  const int64_t wanted = (std::max<int64_t>(least, 2) + step - 1) / step * step +
                         (ir::SizeGrid::kLeastSizes - 1) * step;
  return {dim.name, least, std::max(most, wanted), step};
}

bool fits(const Dim& dim, int64_t size) {
  return size >= dim.min && size <= dim.max && size % dim.multiple == 0;
}

}  // namespace

std::vector<ir::TensorType> DynamicInputs::types_at(const CallFacts& call,
                                                    const ir::SizeSteps& steps) const {
  std::vector<ir::TensorType> types;
  for (const InputFacts& input : call.inputs) types.push_back(*input.type);
  const std::vector<int64_t> sizes = grid.sizes_at(steps);
  for (const Place& place : places) {
    std::vector<int64_t> dims = types[place.input].shape.dims();
    dims[place.axis] = sizes[place.size];
    types[place.input].shape = ir::Shape(std::move(dims));
  }
  return types;
}

ir::SizeSteps DynamicInputs::steps_of(const CallFacts& call) const {
  std::vector<int64_t> sizes(grid.sizes().size());
  for (const Place& place : places) {
    sizes[place.size] = call.inputs[place.input].type->shape[place.axis];
  }
  const std::optional<ir::SizeSteps> steps = grid.steps_of(sizes);
  check(steps.has_value(), "sizes {} are outside what the guards allow", fmt::join(sizes, ", "));
  return *steps;
}

std::optional<DynamicInputs> dynamic_inputs(const DynamicShapes& shapes, const CallFacts& call,
                                            std::span<const std::string> names) {
  check_names(shapes, names);
  std::vector<InputGuard> guards = static_guards(call);
  std::vector<DynamicInputs::Place> places;
  std::vector<ir::DynamicSize> sizes;
  std::map<std::string, std::pair<size_t, int64_t>> known;  // number, size in this call
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = shapes.find(names[i]);
    if (found == shapes.end()) continue;
    const ir::TensorType& type = *call.inputs[i].type;
    const std::vector<Dim>& dims = found->second;
    if (dims.size() > type.shape.dims().size() || !call.inputs[i].order.empty()) {
      throw_user_error(
          "dynamic_shapes of input '{}': {} Dims for {}: give at most one an axis, of a "
          "row-major tensor",
          names[i], dims.size(), type.str());
    }
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const Dim& dim = dims[axis];
      if (dim.is_fixed()) continue;
      check_dim(dim, names[i]);
      const int64_t size = type.shape[static_cast<int>(axis)];
      const auto [entry, is_new] = known.try_emplace(dim.name, sizes.size(), size);
      if (!fits(dim, size) || entry->second.second != size) return std::nullopt;
      if (is_new) sizes.push_back(planned(dim));
      places.push_back({i, static_cast<int>(axis), entry->second.first});
      guards[i].dims[axis] = {dim.min, dim.max, dim.multiple, static_cast<int>(entry->second.first),
                              dim.name};
    }
  }
  if (places.empty()) return std::nullopt;
  return DynamicInputs{ir::SizeGrid(std::move(sizes)), std::move(places), std::move(guards)};
}

std::vector<DynamicShapes> shapes_without_largest(const DynamicShapes& shapes,
                                                  const CallFacts& call,
                                                  std::span<const std::string> names) {
  std::map<std::string, int64_t> size_of;  // in the call
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = shapes.find(names[i]);
    if (found == shapes.end()) continue;
    for (size_t axis = 0; axis < found->second.size(); ++axis) {
      size_of[found->second[axis].name] = call.inputs[i].type->shape[static_cast<int>(axis)];
    }
  }
  const auto without = [&](DynamicShapes from, const std::string& name) {
    for (auto& [input, dims] : from) {
      for (Dim& dim : dims) {
        if (dim.name != name) continue;
        const int64_t largest = dim.max / dim.multiple * dim.multiple;
        if (size_of[name] == largest) {
          dim = Dim();
        } else {
          dim.max = largest - dim.multiple;
        }
      }
    }
    return from;
  };
  std::vector<DynamicShapes> result;
  size_of.erase("");
  for (const auto& [name, size] : size_of) result.push_back(without(shapes, name));
  if (size_of.size() == 2) {
    result.push_back(without(result[0], std::next(size_of.begin())->first));
  }
  return result;
}

std::optional<DynamicShapes> widened_shapes(const Guards& known, const CallFacts& call,
                                            std::span<const std::string> names) {
  DynamicShapes shapes;
  std::map<std::pair<int64_t, int64_t>, std::string> dim_of;  // by size before and now
  for (size_t i = 0; i < known.inputs.size(); ++i) {
    const InputGuard& guard = known.inputs[i];
    const ir::TensorType& type = *call.inputs[i].type;
    const bool is_alike = guard.dtype == type.dtype && guard.order == call.inputs[i].order &&
                          guard.dims.size() == type.shape.dims().size();
    if (!is_alike) return std::nullopt;
    std::vector<Dim> dims(guard.dims.size());
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const int64_t before = guard.dims[axis].max, now = type.shape[static_cast<int>(axis)];
      const bool is_dynamic = !guard.dims[axis].is_static();
      if (before == now && !is_dynamic) continue;
      const auto [name, is_new] =
          dim_of.try_emplace({before, now}, fmt::format("size{}", dim_of.size()));
      dims[axis] = {name->second, 1, std::max(before, now)};
    }
    shapes[names[i]] = std::move(dims);
  }
  if (dim_of.empty() || dim_of.size() > ir::SizeGrid::kMostSizes) return std::nullopt;
  return shapes;
}

}  // namespace monograph::session
