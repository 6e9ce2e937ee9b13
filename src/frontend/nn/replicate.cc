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
    means.add(parameter, trace::all_mean(gradients[parameter], mesh, axis));
  }
  for (const std::string& name : gradients.unused()) means.add_unused(name);
  return means;
}

}  // namespace monograph::nn
