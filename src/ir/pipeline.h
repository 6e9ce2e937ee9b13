#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace monograph::ir {

// How a model is cut over the ranks of a mesh axis: each has one or more stages, runs of its
// layers, and works on one micro-batch after the other (see nn::pipeline).
struct Pipeline {
  enum class Schedule : uint8_t {
    k1F1B,         // Narayanan et al., "PipeDream", 2019, with a flush a step
    kInterleaved,  // several stages a rank (Narayanan et al., "Megatron-LM", 2021)
    kZeroBubble,   // ZB-H1: gradients of weights wait for idle time (Qi et al., 2023)
  };
  int num_ranks = 1;   // of axis kPipelineAxis
  int num_chunks = 1;  // stages of a rank: stage s is that of rank s % num_ranks
  int num_micro_batches = 1;
  Schedule schedule = Schedule::k1F1B;
  std::vector<std::string> layers;  // paths of modules, "h.0", in the order in which they run
  std::vector<int> stage_of_layer;  // beside them; ascending

  int num_stages() const { return num_ranks * num_chunks; }
  int rank_of(int stage) const { return stage % num_ranks; }
  bool splits_backward() const { return schedule == Schedule::kZeroBubble; }
};
std::string_view schedule_name(Pipeline::Schedule schedule);  // "1f1b", "interleaved", "zb-h1"

// Contiguous parts, in order, so that the largest sum of costs in one part is least, and among
// those cuts the parts at the end are smallest. One part has one element at least.
// costs: one an element, at least as many as parts. Gives the part of each element.
std::vector<int> balanced_parts(const std::vector<double>& costs, int num_parts);

}  // namespace monograph::ir
