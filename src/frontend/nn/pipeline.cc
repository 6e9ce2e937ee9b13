#include "frontend/nn/pipeline.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/error.h"
#include "ops/op_def.h"

namespace monograph::nn {
namespace {

constexpr double kFlopsPerByte = 16;  // what a core does while it moves a byte

// "model.layers.3" of "model.layers.3.mlp.up_proj.weight"; nothing: it is in no list.
std::optional<std::string> element_of(const std::string& name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const bool is_number = end > begin && std::all_of(name.begin() + static_cast<int64_t>(begin),
                                                      name.begin() + static_cast<int64_t>(end),
                                                      [](unsigned char c) { return isdigit(c); });
    if (is_number) return name.substr(0, end);
    begin = end + 1;
  }
  return std::nullopt;
}

std::vector<std::string> layers_of(const Module& model) {
  std::vector<std::string> layers;
  for (const Parameter& parameter : model.parameters()) {
    const auto element = element_of(parameter.name());
    if (element && (layers.empty() || layers.back() != *element)) layers.push_back(*element);
  }
  return layers;
}

bool is_in(std::string_view path, std::string_view module) {
  return path.starts_with(module) && (path.size() == module.size() || path[module.size()] == '.');
}

// Of each layer in a forward pass over one row of tokens; what is before the layers goes to the
// first, what is behind them to the last.
template <typename Model>
std::vector<double> costs_of_layers(const Model& model, const std::vector<std::string>& layers) {
  const auto trace = trace::Trace::create();
  const ir::TensorType row{ir::DType::kI64, {1, model.config().block_size}};
  model.loss(trace->input("tokens", row), trace->input("targets", row));
  std::vector<double> costs(layers.size(), 0);
  size_t layer = 0;  // nodes stand in the order in which they run
  for (const auto& node : trace->graph().nodes()) {
    if (node->is_placeholder()) continue;
    const std::string& scope = node->provenance().scope;
    while (layer + 1 < layers.size() && is_in(scope, layers[layer + 1])) ++layer;
    const ops::Cost cost = ops::cost_of(*node);
    costs[layer] += cost.flops / kFlopsPerByte + cost.bytes;
  }
  return costs;
}

void check_options(const ir::Mesh& mesh, const PipelineOptions& options, size_t num_layers) {
  const int64_t ranks = mesh.size(ir::kPipelineAxis);
  if (options.micro_batches < 1) {
    throw_user_error("a pipeline of {} micro-batches: use 1 or more", options.micro_batches);
  }
  const bool is_interleaved = options.schedule == PipelineSchedule::kInterleaved;
  if (is_interleaved && options.chunks < 2) {
    throw_user_error("schedule interleaved of {} chunks a rank: use 2 or more, or schedule 1f1b",
                     options.chunks);
  }
  if (is_interleaved && options.micro_batches % ranks != 0) {
    throw_user_error(
        "schedule interleaved of {} micro-batches over {} ranks of axis '{}': use a multiple of {}",
        options.micro_batches, ranks, ir::kPipelineAxis, ranks);
  }
  const int64_t stages = ranks * (is_interleaved ? options.chunks : 1);
  if (stages <= static_cast<int64_t>(num_layers)) return;
  throw_user_error(
      "a pipeline of {} stages for a model of {} layers: each stage has one at least, use fewer "
      "ranks of axis '{}'{}",
      stages, num_layers, ir::kPipelineAxis, is_interleaved ? " or chunks" : "");
}

void cut(Module& model, const ir::Mesh& mesh, const std::vector<std::string>& layers,
         const std::vector<double>& costs, const std::vector<std::string>& shared,
         const PipelineOptions& options) {
  auto pipeline = std::make_shared<ir::Pipeline>();
  pipeline->num_ranks = static_cast<int>(mesh.size(ir::kPipelineAxis));
  pipeline->num_micro_batches = static_cast<int>(options.micro_batches);
  pipeline->schedule = options.schedule;
  if (options.schedule == PipelineSchedule::kInterleaved) {
    pipeline->num_chunks = static_cast<int>(options.chunks);
  }
  pipeline->layers = layers;
  pipeline->stage_of_layer = ir::balanced_parts(costs, pipeline->num_stages());
  const int last = pipeline->num_ranks - 1;
  bool is_behind = false;  // the list of layers
  for (Parameter parameter : model.parameters()) {
    std::vector<int> ranks = {is_behind ? last : 0};
    const auto element = element_of(parameter.name());
    if (element) {
      is_behind = true;
      const auto layer = std::find(layers.begin(), layers.end(), *element) - layers.begin();
      ranks = {pipeline->rank_of(pipeline->stage_of_layer[static_cast<size_t>(layer)])};
    } else if (std::find(shared.begin(), shared.end(), parameter.name()) != shared.end()) {
      ranks = {0, last};
    }
    parameter.put_on(pipeline, std::move(ranks));
  }
}

template <typename Model>
void cut_language_model(Model& model, const ir::Mesh& mesh, const std::vector<std::string>& shared,
                        const PipelineOptions& options) {
  const std::vector<std::string> layers = layers_of(model);
  check_options(mesh, options, layers.size());
  if (mesh.size(ir::kPipelineAxis) == 1) return;
  const std::vector<double> costs = options.cut == PipelineCut::kCost
                                        ? costs_of_layers(model, layers)
                                        : std::vector<double>(layers.size(), 1);
  cut(model, mesh, layers, costs, shared, options);
}

}  // namespace

PipelineSchedule parse_pipeline_schedule(std::string_view name) {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::k1F1B, PipelineSchedule::kInterleaved, PipelineSchedule::kZeroBubble}) {
    if (name == ir::schedule_name(schedule)) return schedule;
  }
  throw_user_error("schedule '{}': use 1f1b, interleaved or zb-h1", name);
}

PipelineCut parse_pipeline_cut(std::string_view name) {
  if (name == "layers") return PipelineCut::kLayers;
  if (name == "cost") return PipelineCut::kCost;
  throw_user_error("cut '{}': use layers or cost", name);
}

void pipeline(GPT& model, const ir::Mesh& mesh, const PipelineOptions& options) {
  cut_language_model(model, mesh, {"wte.weight"}, options);
}

void pipeline(Llama& model, const ir::Mesh& mesh, const PipelineOptions& options) {
  std::vector<std::string> shared;
  if (model.config().is_tied) shared.emplace_back("model.embed_tokens.weight");
  cut_language_model(model, mesh, shared, options);
}

void pipeline(Module& model, const ir::Mesh& mesh, const std::vector<std::string>& shared,
              const PipelineOptions& options) {
  if (options.cut == PipelineCut::kCost) {
    throw_user_error("cut cost takes a model whose inputs are known, a GPT or Llama: use layers");
  }
  const std::vector<std::string> layers = layers_of(model);
  check_options(mesh, options, layers.size());
  if (mesh.size(ir::kPipelineAxis) == 1) return;
  cut(model, mesh, layers, std::vector<double>(layers.size(), 1), shared, options);
}

}  // namespace monograph::nn
