#include "train/compressed_exchange.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "ir/state_names.h"
#include "train/rank_part.h"

namespace monograph::train {
namespace {

using Method = ops::Compression::Method;

bool have_same_parts(const ir::TensorType& a, const ir::TensorType& b) {
  return a.dtype == b.dtype && a.shape.rank() == b.shape.rank() && a.shape.rank() > 0 &&
         std::equal(a.shape.dims().begin() + 1, a.shape.dims().end(), b.shape.dims().begin() + 1);
}

// Every rank of `type`, [ranks, ...], has the mean over the first axis of `all`.
ir::Literal mean_for_each(const ir::Literal& all, const ir::TensorType& type) {
  const int64_t num_before = all.type().shape[0];
  const int64_t count = all.num_elements() / num_before;
  std::vector<double> mean(count, 0);
  for (int64_t i = 0; i < all.num_elements(); ++i) mean[i % count] += all.get(i);
  const auto divisor = static_cast<double>(num_before);
  return ir::Literal::from(type, [&](int64_t i) { return mean[i % count] / divisor; });
}

}  // namespace

void check_compression(const TrainConfig& config) {
  const ops::Compression& compression = config.compression;
  compression.check();
  if (!compression.is_on()) return;
  const ir::Mesh mesh = mesh_of(config);
  const std::string what = fmt::format("--compress {}", compression.str());
  if (mesh.batch_part(0).second == 1) {
    throw_user_error("{} on one rank: nothing is exchanged; leave it out, or use more ranks", what);
  }
  if (compression.has_residual() && config.loss_scale != "none") {
    throw_user_error(
        "{} with --loss-scale {}: what a rank keeps unsent would be of another scale, and not "
        "finite after a step that is skipped: use qsgd, or no loss scale",
        what, config.loss_scale);
  }
  if (config.options.backend != "cuda") return;
  if (compression.method == Method::kTopK) {
    throw_user_error("{} on a GPU: op top_k runs on CPUs only: use qsgd or powersgd", what);
  }
  if (mesh.has("fsdp") && mesh.size("fsdp") > 1) {
    throw_user_error("{} with axis fsdp on GPUs: all_to_all runs on CPUs only: use --mesh dp=N",
                     what);
  }
}

nn::ReplicateOptions replicate_options(const TrainConfig& config, const ir::Mesh& mesh,
                                       const std::string& axis) {
  return {axis, mesh.size(axis) == 1 ? ops::Compression() : config.compression};
}

std::string fit_exchange_states(const session::Session& session, Checkpoint& checkpoint) {
  int64_t num_averaged = 0, num_reset = 0, num_dropped = 0;
  std::map<std::string, ir::Literal>& states = checkpoint.states;
  const std::vector<std::string> names = session.state_names();
  for (const std::string& name : names) {
    if (!name.starts_with(ir::kExchangePrefix) || !is_saved(name)) continue;
    const ir::TensorType type = session.state_type(name);
    const auto found = states.find(name);
    if (found != states.end() && found->second.type() == type) continue;
    const bool is_averaged = found != states.end() && name.starts_with(ir::kResidualPrefix) &&
                             have_same_parts(found->second.type(), type);
    ++(is_averaged ? num_averaged : num_reset);
    states[name] = is_averaged ? mean_for_each(found->second, type) : ir::Literal(type);
  }
  std::erase_if(states, [&](const auto& state) {
    const bool is_unknown = state.first.starts_with(ir::kExchangePrefix) &&
                            std::find(names.begin(), names.end(), state.first) == names.end();
    num_dropped += is_unknown;
    return is_unknown;
  });
  if (num_averaged + num_reset + num_dropped == 0) return "";
  return fmt::format(
      "the checkpoint's gradients were compressed otherwise, or by another number of ranks: of "
      "what "
      "ranks had not sent, {} tensors go on as their mean over ranks, {} begin with zeros, {} are "
      "dropped",
      num_averaged, num_reset, num_dropped);
}

}  // namespace monograph::train
