#include "frontend/nn/replicate.h"

#include "frontend/trace/collectives.h"
#include "frontend/trace/trace.h"

namespace monograph::nn {

trace::Gradients replicate(const trace::Gradients& gradients, const ir::Mesh& mesh,
                           std::string_view axis) {
  if (mesh.size(axis) == 1) return gradients;
  const trace::PhaseScope phase(gradients.trace(), ir::Phase::kBackward);
  trace::Gradients means(gradients.trace().shared_from_this());
  for (const trace::State& parameter : gradients.parameters()) {
    const trace::Scope scope(gradients.trace(), parameter.name());
    const bool is_in_unit = parameter.flat_unit() != nullptr;
    means.add(parameter, is_in_unit ? gradients[parameter]
                                    : trace::all_mean(gradients[parameter], mesh, axis));
  }
  for (const auto& known : gradients.means_of_units()) means.take_mean_of_units(known);
  means.take_mean_of_units({std::string(axis), mesh.size(axis)});
  for (const std::string& name : gradients.unused()) means.add_unused(name);
  return means;
}

trace::Tensor mean_count(const trace::Tensor& count, const ir::Mesh& mesh, std::string_view axis) {
  const auto num_ranks = static_cast<double>(mesh.size(axis));
  const trace::Tensor total = num_ranks == 1 ? count : trace::all_reduce(count, mesh, axis);
  return maximum(total, 1.0) * (1 / num_ranks);  // of a step without any sample, all are 0
}

}  // namespace monograph::nn
