#pragma once

#include <memory>

#include "base/error.h"
#include "comm/call.h"
#include "comm/flight_recorder.h"
#include "comm/job_watch.h"
#include "comm/store.h"

namespace monograph::comm {

// What a communicator is part of.
struct Job {
  std::shared_ptr<FlightRecorder> recorder;
  std::shared_ptr<JobWatch> watch;
  Milliseconds timeout;  // of one call
};

// The error of a call of this group, with what the watch found to be the job's first failure.
CommError error_of(const Group& group, const Call& call, const Failure& failure);

}  // namespace monograph::comm
