#include "ir/mesh.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace monograph::ir {

Mesh::Mesh(std::vector<Axis> axes) : axes_(std::move(axes)) {
  for (size_t i = 0; i < axes_.size(); ++i) {
    const Axis& axis = axes_[i];
    if (axis.name.empty() || axis.size < 1) {
      throw_user_error("mesh axis '{}' of size {}: give it a name and at least one rank", axis.name,
                       axis.size);
    }
    const auto is_same = [&](const Axis& other) { return other.name == axis.name; };
    if (std::any_of(axes_.begin(), axes_.begin() + static_cast<int64_t>(i), is_same)) {
      throw_user_error("mesh axis '{}' stands twice: give each axis a name of its own", axis.name);
    }
  }
}

int64_t Mesh::num_ranks() const {
  int64_t count = 1;
  for (const Axis& axis : axes_) count *= axis.size;
  return count;
}

bool Mesh::has(std::string_view axis) const {
  return std::any_of(axes_.begin(), axes_.end(), [&](const Axis& a) { return a.name == axis; });
}

size_t Mesh::index(std::string_view axis) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == axis) return i;
    names.push_back(axes_[i].name);
  }
  throw_user_error(
      "'{}' is not an axis of {}: use {}", axis, str(),
      names.empty() ? "none, it is one rank" : fmt::format("'{}'", fmt::join(names, "', '")));
}

int64_t Mesh::size(std::string_view axis) const {
  return axes_[index(axis)].size;
}

std::vector<int64_t> Mesh::coordinates(int64_t rank) const {
  if (rank < 0 || rank >= num_ranks()) {
    throw_user_error("rank {} is not in {}: use 0..{}", rank, str(), num_ranks() - 1);
  }
  std::vector<int64_t> result(axes_.size());
  for (size_t i = axes_.size(); i-- > 0; rank /= axes_[i].size) result[i] = rank % axes_[i].size;
  return result;
}

std::vector<int64_t> Mesh::group(std::string_view axis, int64_t rank) const {
  const size_t at = index(axis);
  int64_t stride = 1;
  for (size_t i = at + 1; i < axes_.size(); ++i) stride *= axes_[i].size;
  const int64_t first = rank - coordinates(rank)[at] * stride;
  std::vector<int64_t> ranks;
  for (int64_t i = 0; i < axes_[at].size; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

std::vector<std::string> Mesh::batch_axes() const {
  std::vector<std::string> names;
  for (const Axis& axis : axes_) {
    if (axis.name == "data" || axis.name == "dp" || axis.name == "fsdp") names.push_back(axis.name);
  }
  return names;
}

std::pair<int64_t, int64_t> Mesh::batch_part(int64_t rank) const {
  const std::vector<int64_t> place = coordinates(rank);
  int64_t part = 0, count = 1;
  for (const std::string& axis : batch_axes()) {
    part = part * size(axis) + place[index(axis)];
    count *= size(axis);
  }
  return {part, count};
}

int64_t Mesh::stage(int64_t rank) const {
  return has(kPipelineAxis) ? coordinates(rank)[index(kPipelineAxis)] : 0;
}

std::vector<int> Mesh::ranks_of_stage(int64_t stage) const {
  std::vector<int> ranks;
  for (int64_t rank = 0; rank < num_ranks(); ++rank) {
    if (this->stage(rank) == stage) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

std::string Mesh::str() const {
  std::vector<std::string> axes;
  for (const Axis& axis : axes_) axes.push_back(fmt::format("{}={}", axis.name, axis.size));
  return fmt::format("mesh({})", fmt::join(axes, ", "));
}

}  // namespace monograph::ir
