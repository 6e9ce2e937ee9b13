#include "frontend/nn/fully_shard.h"

#include <algorithm>

#include "base/error.h"
#include "frontend/nn/optim/flat.h"

namespace monograph::nn {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Parts of matrices and of vectors are apart: each range has parts only, which all decay or not.
std::string unit_name(const Parameter& parameter) {
  const std::string name = unit_of(parameter.name());
  if (!parameter.tensor_shard()) return name;
  return fmt::format("{}.{}.{}", name, parameter.tensor_shard()->axis,
                     parameter.shape().rank() < 2 ? "vectors" : "matrices");
}

void check_options(const ir::Mesh& mesh, const FullyShardOptions& options) {
  mesh.size(options.axis);  // names the axes when there is none of that name
  if (options.strategy != ShardStrategy::kHybrid) return;
  if (options.axis == options.replicate_axis || !mesh.has(options.replicate_axis)) {
    throw_user_error(
        "strategy hybrid keeps copies of the parts over axis '{}', which {} has not beside '{}': "
        "use a mesh of both, as dp=2,fsdp=2, or strategy full-shard",
        options.replicate_axis, mesh.str(), options.axis);
  }
}

}  // namespace

ShardStrategy parse_shard_strategy(std::string_view name) {
  if (name == "full-shard") return ShardStrategy::kFullShard;
  if (name == "shard-grad-op") return ShardStrategy::kShardGradOp;
  if (name == "hybrid") return ShardStrategy::kHybrid;
  throw_user_error("strategy '{}': use full-shard, shard-grad-op or hybrid", name);
}

std::string unit_of(std::string_view parameter) {
  for (size_t begin = 0; begin < parameter.size();) {
    const size_t end = std::min(parameter.find('.', begin), parameter.size());
    if (is_number(parameter.substr(begin, end - begin)))
      return std::string(parameter.substr(0, end));
    begin = end + 1;
  }
  return "root";
}

void fully_shard(Module& model, const ir::Mesh& mesh, const FullyShardOptions& options) {
  check_options(mesh, options);
  const int64_t size = mesh.size(options.axis);
  if (size == 1) return;
  std::vector<std::pair<std::string, std::vector<Parameter>>> units;
  for (const Parameter& parameter : model.parameters()) {
    if (*parameter.frozen()) continue;
    const std::string name = unit_name(parameter);
    const auto is_it = [&](const auto& unit) { return unit.first == name; };
    auto unit = std::find_if(units.begin(), units.end(), is_it);
    if (unit == units.end()) unit = units.insert(units.end(), {name, {}});
    unit->second.push_back(parameter);
  }
  for (const auto& [name, parameters] : units) {
    auto unit = std::make_shared<ir::FlatUnit>();
    unit->name = name;
    unit->axis = options.axis;
    unit->axis_size = size;
    unit->is_regathered = options.strategy != ShardStrategy::kShardGradOp;
    std::vector<Parameter> members = optim::FlatRange::in_order(parameters);
    for (const Parameter& member : members)
      unit->members.push_back({member.name(), member.part_type().shape});
    for (size_t i = 0; i < members.size(); ++i) members[i].put_into(unit, static_cast<int>(i));
  }
}

}  // namespace monograph::nn
