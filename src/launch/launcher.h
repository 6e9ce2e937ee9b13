#pragma once

#include "launch/plan.h"

namespace monograph::launch {

// Starts the ranks of this host, shows and logs their output, passes signals on, and waits for all.
// When a rank fails, the others are given a moment to say why, then ended; the first one at fault
// is named with its cause. Nothing that it started outlives it, whatever ends it. Returns 0, the
// status of the rank at fault (128 + signal where one ended it; 75 where it did not answer), or
// 128 + the signal that this process got. To be called by the main thread, once.
int launch(LaunchPlan plan);

}  // namespace monograph::launch
