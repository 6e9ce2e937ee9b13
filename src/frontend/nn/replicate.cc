#include "frontend/nn/replicate.h"

#include "base/error.h"
#include "frontend/trace/collectives.h"
#include "frontend/trace/trace.h"

namespace monograph::nn {

using ops::Compression;

namespace {

void check_compression(const trace::Gradients& gradients, const ir::Mesh& mesh,
                       const ReplicateOptions& options) {
  const Compression& compression = options.compression;
  compression.check();
  if (!compression.is_on()) return;
  if (mesh.size(options.axis) == 1) {
    throw_user_error(
        "compression {} over axis '{}' of one rank: nothing is exchanged; leave it out, or use "
        "more ranks",
        compression.str(), options.axis);
  }
  if (compression.method != Compression::Method::kPowerSgd) return;
  for (const trace::State& parameter : gradients.parameters()) {
    if (parameter.flat_unit() == nullptr) continue;
    throw_user_error(
        "compression {} of '{}' in sharded unit '{}': ranks have parts of it that cut through "
        "matrices, which a low-rank factor needs whole: use qsgd or topk",
        compression.str(), parameter.name(), parameter.flat_unit()->name);
  }
}

trace::Tensor mean_of(const trace::State& parameter, const trace::Tensor& gradient,
                      const ir::Mesh& mesh, const ReplicateOptions& options) {
  const Compression& compression = options.compression;
  const bool is_compressed = compression.is_on() && gradient.dtype() == ir::DType::kF32 &&
                             gradient.rank() >= 2 &&
                             gradient.type().num_elements() >= compression.min_elements;
  if (!is_compressed) return trace::all_mean(gradient, mesh, options.axis);
  const int64_t size = mesh.size(options.axis);
  return trace::emit("all_reduce", {gradient},
                     {{"axis", options.axis},
                      {"size", size},
                      {"op", std::string("sum")},
                      {"compress", compression.str()},
                      {"gradient", parameter.name()}}) *
         (1 / static_cast<double>(size));
}

}  // namespace

trace::Gradients replicate(const trace::Gradients& gradients, const ir::Mesh& mesh,
                           std::string_view axis) {
  return replicate(gradients, mesh, ReplicateOptions{.axis = std::string(axis)});
}

trace::Gradients replicate(const trace::Gradients& gradients, const ir::Mesh& mesh,
                           const ReplicateOptions& options) {
  check_compression(gradients, mesh, options);
  const int64_t size = mesh.size(options.axis);
  if (size == 1) return gradients;
  const trace::PhaseScope phase(gradients.trace(), ir::Phase::kBackward);
  trace::Gradients means(gradients.trace().shared_from_this());
  for (const trace::State& parameter : gradients.parameters()) {
    const trace::Scope scope(gradients.trace(), parameter.name());
    const trace::Tensor gradient = gradients[parameter];
    const bool is_in_unit = parameter.flat_unit() != nullptr;
    means.add(parameter, is_in_unit ? gradient : mean_of(parameter, gradient, mesh, options));
  }
  for (const auto& known : gradients.means_of_units()) means.take_mean_of_units(known);
  means.take_mean_of_units({options.axis, size, options.compression});
  for (const std::string& name : gradients.unused()) means.add_unused(name);
  return means;
}

Compression qsgd(int64_t bits) {
  return {.method = Compression::Method::kQsgd, .bits = bits};
}

Compression top_k(double fraction) {
  return {.method = Compression::Method::kTopK, .fraction = fraction};
}

Compression power_sgd(int64_t rank) {
  return {.method = Compression::Method::kPowerSgd, .rank = rank};
}

trace::Tensor mean_count(const trace::Tensor& count, const ir::Mesh& mesh, std::string_view axis) {
  const auto num_ranks = static_cast<double>(mesh.size(axis));
  const trace::Tensor total = num_ranks == 1 ? count : trace::all_reduce(count, mesh, axis);
  return maximum(total, 1.0) * (1 / num_ranks);  // of a step without any sample, all are 0
}

}  // namespace monograph::nn
