#include "frontend/nn/tensor_parallel.h"

#include <algorithm>

#include "base/error.h"

namespace monograph::nn {
namespace {

constexpr int kRows = 0, kColumns = 1;

std::string_view next_component(std::string_view& path) {
  const size_t end = std::min(path.find('.'), path.size());
  const std::string_view component = path.substr(0, end);
  path.remove_prefix(std::min(end + 1, path.size()));
  return component;
}

bool matches(std::string_view pattern, std::string_view name) {
  while (!pattern.empty() && !name.empty()) {
    const std::string_view wanted = next_component(pattern), given = next_component(name);
    if (wanted != "*" && wanted != given) return false;
  }
  return pattern.empty() && name.empty();
}

void check_heads(std::string_view what, int64_t heads, const ir::Mesh& mesh,
                 const std::string& axis) {
  if (heads % mesh.size(axis) == 0) return;
  throw_user_error("{} {} over {} ranks of axis '{}': each has whole heads, use a divisor of {}",
                   what, heads, mesh.size(axis), axis, heads);
}

void check_length(int64_t block_size, const ir::Mesh& mesh, const TensorParallelOptions& options) {
  const int64_t ranks = mesh.size(options.axis);
  if (!options.is_sequence_parallel || block_size % ranks == 0) return;
  throw_user_error(
      "block_size {} over {} ranks of axis '{}': sequence parallel training gives each an equal "
      "part of the sequence",
      block_size, ranks, options.axis);
}

void apply(const TensorParallelRule& rule, Parameter parameter, ir::TensorShard shard) {
  const ir::Shape& shape = parameter.shape();
  if (rule.dim < 0 || rule.dim >= shape.rank()) {
    throw_user_error("rule '{}' divides dim {} of parameter '{}', {}: use 0..{}", rule.path,
                     rule.dim, parameter.name(), parameter.type().str(), shape.rank() - 1);
  }
  shard.placement = ir::Placement::shard(rule.dim, rule.blocks);
  if (rule.blocks < 1 || !shard.placement.fits(shape, shard.axis_size)) {
    throw_user_error(
        "parameter '{}' is {}: its dim {}{} cannot be divided by the {} ranks of axis '{}'",
        parameter.name(), parameter.type().str(), rule.dim,
        rule.blocks == 1 ? "" : fmt::format(", {} tensors side by side,", rule.blocks),
        shard.axis_size, shard.axis);
  }
  parameter.divide(shard);
}

}  // namespace

void tensor_parallel(Module& model, const ir::Mesh& mesh,
                     const std::vector<TensorParallelRule>& rules,
                     const TensorParallelOptions& options) {
  const int64_t size = mesh.size(options.axis);
  if (size == 1) return;
  for (const TensorParallelRule& rule : rules) {
    bool is_used = false;
    for (const Parameter& parameter : model.parameters()) {
      if (!matches(rule.path, parameter.name())) continue;
      is_used = true;
      apply(rule, parameter, {options.axis, size, {}, options.is_sequence_parallel});
    }
    if (is_used) continue;
    throw_user_error("rule '{}' names no parameter of the model, which has '{}' and others",
                     rule.path, model.parameters().empty() ? "none" : model.parameters()[0].name());
  }
}

void tensor_parallel(GPT& model, const ir::Mesh& mesh, const TensorParallelOptions& options) {
  check_heads("n_head", model.config().n_head, mesh, options.axis);
  check_length(model.config().block_size, mesh, options);
  tensor_parallel(model, mesh,
                  {{"wte.weight", kRows},
                   {"h.*.attn.c_attn.weight", kColumns, 3},
                   {"h.*.attn.c_attn.bias", 0, 3},
                   {"h.*.attn.c_proj.weight", kRows},
                   {"h.*.mlp.c_fc.weight", kColumns},
                   {"h.*.mlp.c_fc.bias", 0},
                   {"h.*.mlp.c_proj.weight", kRows}},
                  options);
}

void tensor_parallel(Llama& model, const ir::Mesh& mesh, const TensorParallelOptions& options) {
  check_heads("n_kv_head", model.config().n_kv_head, mesh, options.axis);
  check_length(model.config().block_size, mesh, options);
  std::vector<TensorParallelRule> rules = {{"model.embed_tokens.weight", kRows},
                                           {"model.layers.*.self_attn.q_proj.weight", kColumns},
                                           {"model.layers.*.self_attn.k_proj.weight", kColumns},
                                           {"model.layers.*.self_attn.v_proj.weight", kColumns},
                                           {"model.layers.*.self_attn.o_proj.weight", kRows},
                                           {"model.layers.*.mlp.gate_proj.weight", kColumns},
                                           {"model.layers.*.mlp.up_proj.weight", kColumns},
                                           {"model.layers.*.mlp.down_proj.weight", kRows}};
  if (!model.config().is_tied) rules.push_back({"lm_head.weight", kColumns});
  tensor_parallel(model, mesh, rules, options);
}

}  // namespace monograph::nn
