#pragma once

#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "ir/link_model.h"
#include "ir/program/program.h"
#include "runtime/cpu/executor.h"

namespace monograph::train {

// One collective of a step, a bucket of gradients for example. Milliseconds a step.
struct ExchangeRow {
  std::string name;
  int num_tensors = 1;
  int64_t bytes = 0;
  double predicted_ms = 0, measured_ms = 0;                  // from its begin to its end
  double predicted_exposed_ms = 0, measured_exposed_ms = 0;  // the computation stood still
};

// How the ranks' exchange went beside the computation.
struct ExchangeReport {
  int num_ranks = 1;
  std::string transport;  // "shared memory"
  ir::LinkModel link;     // measured at the start; on GPUs: that the buckets were made for
  std::vector<ExchangeRow> rows;
  double computation_ms = 0, communication_ms = 0, exposed_ms = 0, predicted_exposed_ms = 0;
  int64_t bytes = 0;

  // Time with both / the longer of the two, in 0..1.
  double overlap() const;
};

// `times`: of the steps of the Program. Predicted: each collective takes what the link model
// says, as early as the Program lets it, beside computation that takes what was measured.
ExchangeReport make_exchange_report(const ir::Program& program,
                                    std::span<const runtime::StepTime> times,
                                    const ir::LinkModel& link);

void print(std::FILE* out, const ExchangeReport& report);

}  // namespace monograph::train
