#include "train/pipeline_report.h"

#include <fmt/format.h>

#include "train/report.h"

namespace monograph::train {

void print(std::FILE* out, const std::optional<analysis::PipelineReport>& report) {
  if (!report) return;
  const ir::Pipeline& pipeline = report->pipeline;
  fmt::print(out,
             "pipeline  {} stages on {} ranks, {} micro-batches, {}: {:.1f} % bubble predicted "
             "({:.1f} % if stages were equal)\n",
             pipeline.num_stages(), pipeline.num_ranks, pipeline.num_micro_batches,
             ir::schedule_name(pipeline.schedule), 100 * report->bubble_share,
             100 * report->equal_bubble_share);
  for (int stage = 0; stage < pipeline.num_stages(); ++stage) {
    const auto& each = report->stages[static_cast<size_t>(stage)];
    const int rank = pipeline.rank_of(stage);
    const auto parameters = report->parameters[static_cast<size_t>(rank)];
    fmt::print(out, "          stage {} on rank {}: {}, {:.1f} % of the work{}\n", stage, rank,
               each.layers, 100 * each.work_share,
               stage == rank ? fmt::format(", {} parameters", grouped(parameters)) : "");
  }
}

void print_idle(std::FILE* out, const std::optional<analysis::PipelineReport>& report, int rank,
                double exposed_ms, double step_ms) {
  if (!report || step_ms <= 0) return;
  fmt::print(out,
             "pipeline  rank {} waited for others {:.1f} % of a step's time; bubble predicted for "
             "all ranks {:.1f} %\n",
             rank, 100 * exposed_ms / step_ms, 100 * report->bubble_share);
}

}  // namespace monograph::train
