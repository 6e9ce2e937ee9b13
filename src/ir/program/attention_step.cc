#include <algorithm>

#include "ir/program/attention_workspace.h"

namespace monograph::ir {
namespace {

constexpr int64_t kLineFloats = 16;  // 64 bytes
constexpr int64_t kBlockKeys = 64;   // a multiple of what kernels take at a time

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

int64_t AttentionStep::wanted_splits() const {
  constexpr int64_t kJobs = 32, kLeastKeys = 128;
  const int64_t wanted = (kJobs - 1) / (batch * kv_heads) + 1;
  return std::clamp<int64_t>(wanted, 1, (keys - 1) / kLeastKeys + 1);
}

int64_t AttentionStep::keys_per_split() const {
  return round_up((keys + num_splits - 1) / num_splits, kBlockKeys);
}

bool AttentionStep::has_parts() const {
  return num_splits > 1 || dtype != DType::kF32 || width != padded_width();
}

int64_t AttentionStep::padded_width() const {
  return round_up(width, kLineFloats);
}

int64_t AttentionStep::num_deltas() const {
  return round_up(batch * heads * queries, kLineFloats);
}

int64_t gpu_workspace_bytes(const AttentionStep& step) {
  constexpr int64_t kTileKeys = 128, kFloat = 4, kSmallThings = 1 << 20;
  if (!step.is_backward || step.dtype != DType::kBF16) return kFloat;
  const int64_t rows = step.batch * step.heads * step.queries;
  const int64_t num_tiles = step.is_deterministic ? (step.keys + kTileKeys - 1) / kTileKeys : 1;
  const int64_t shared = step.kv_heads < step.heads ? 2 * step.batch * step.heads * step.keys *
                                                          step.width * dtype_bytes(step.dtype)
                                                    : 0;
  return rows * (num_tiles * step.width + 1) * kFloat + shared + kSmallThings;
}

int64_t AttentionStep::workspace_bytes() const {
  const int64_t part = batch * heads * queries * padded_width();
  const int64_t num_floats = num_deltas() + (has_parts() ? num_splits * part : 0);
  return num_floats * dtype_bytes(DType::kF32);
}

}  // namespace monograph::ir
