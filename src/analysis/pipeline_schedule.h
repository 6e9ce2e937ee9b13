#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/pipeline.h"

namespace monograph::analysis {

// What one stage does for one micro-batch, without a stop.
struct Frame {
  enum class Kind : uint8_t {
    kForward,
    kBackward,
    kWeights,  // gradients of weights, where they are not a part of the backward
  };
  Kind kind = Kind::kForward;
  int stage = 0;
  int micro_batch = 0;
  auto operator<=>(const Frame&) const = default;
};
std::string to_text(const Frame& frame);  // "F2 of stage 1"

// The frames of each rank, in order.
using FrameOrders = std::vector<std::vector<Frame>>;

// Those of a training step, by the pipeline's schedule. The first stage has nobody to send a
// gradient to: its backward frames have the gradients of weights, too.
FrameOrders training_frames(const ir::Pipeline& pipeline);
// Those of forward passes alone.
FrameOrders forward_frames(const ir::Pipeline& pipeline, int num_micro_batches);

// When frames run, if each takes what `cost` says and transfers take nothing.
struct FrameTimes {
  std::vector<std::vector<double>> begin, end;  // beside the orders
  double length = 0;                            // of the step
  double bubble_share = 0;                      // of the ranks' time, in which they stand still
};
// Nothing where ranks wait for each other for ever.
std::optional<FrameTimes> play(const ir::Pipeline& pipeline, const FrameOrders& orders,
                               const std::function<double(const Frame&)>& cost);

// Of equal stages, whose backward takes as long as two forwards and halves where it is split.
double equal_cost(const ir::Pipeline& pipeline, const Frame& frame);

// What a pipeline is, for reports.
struct PipelineReport {
  ir::Pipeline pipeline;
  struct Stage {
    std::string layers;     // "h.0 .. h.3"
    double work_share = 0;  // of the step, by the cost model
  };
  std::vector<Stage> stages;
  std::vector<int64_t> parameters = {};  // elements, of each rank
  double bubble_share = 0;               // predicted from the work of each frame
  double equal_bubble_share = 0;         // if stages had equal work
};

}  // namespace monograph::analysis
