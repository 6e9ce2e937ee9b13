#pragma once

#include <cstdio>
#include <optional>

#include "analysis/pipeline_schedule.h"

namespace monograph::train {

// One line of the pipeline and one of each stage; nothing for none.
void print(std::FILE* out, const std::optional<analysis::PipelineReport>& report);
// After the run: how long this rank waited for others, beside the prediction for all ranks.
void print_idle(std::FILE* out, const std::optional<analysis::PipelineReport>& report, int rank,
                double exposed_ms, double step_ms);

}  // namespace monograph::train
