#include "frontend/nn/fully_shard.h"

#include <algorithm>

#include "base/error.h"
#include "frontend/nn/optim/flat.h"

namespace monograph::nn {
namespace {

constexpr const char* kVectors = "vectors";

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Where the number of an element of a list of modules ends in a parameter's name; npos: nowhere.
size_t end_of_element(const std::string& name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    if (is_number(std::string_view(name).substr(begin, end - begin))) return end;
    begin = end + 1;
  }
  return name.npos;
}

// Parts of tensors are apart: each range has parts only.
std::string unit_name(const Parameter& parameter) {
  const std::string name = unit_of(parameter);
  const auto& shard = parameter.tensor_shard();
  return shard ? fmt::format("{}.{}", name, shard->axis) : name;
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

std::string unit_of(const Parameter& parameter) {
  if (parameter.shape().rank() < 2) return kVectors;
  const std::string& name = parameter.name();
  if (const size_t end = end_of_element(name); end != name.npos) return name.substr(0, end);
  return name.substr(0, name.rfind('.'));
}

void fully_shard(Module& model, const ir::Mesh& mesh, const FullyShardOptions& options) {
  check_options(mesh, options);
  const int64_t size = mesh.size(options.axis);
  if (size == 1) return;
  std::vector<std::pair<std::string, std::vector<Parameter>>> units;
  for (const Parameter& parameter : model.parameters()) {
    if (*parameter.frozen()) continue;
    if (parameter.pipeline() != nullptr) {
      throw_user_error(
          "fully_shard of a model in a pipeline: units of several stages are not sharded; use a "
          "mesh without 'pp', or without '{}'",
          options.axis);
    }
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
    // The backward pass begins with the head, embeddings are read once, and vectors are few.
    const bool is_element = end_of_element(name) != name.npos;
    unit->is_regathered = options.strategy != ShardStrategy::kShardGradOp && is_element;
    std::vector<Parameter> members = optim::FlatRange::in_order(parameters);
    for (const Parameter& member : members)
      unit->members.push_back({member.name(), member.part_type().shape});
    for (size_t i = 0; i < members.size(); ++i) members[i].put_into(unit, static_cast<int>(i));
  }
}

}  // namespace monograph::nn
