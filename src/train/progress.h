#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace monograph::train {

// The live line of a run:
//   step 120/200 ━━━━━━━━━━━━━━╸━━━━━━━  loss 2.314   18,402 tok/s   0:41 left
// On a terminal it is drawn over itself at most ten times a second; elsewhere a plain line is
// printed now and then. Goes to `out`; quiet: prints nothing.
class Progress {
 public:
  Progress(std::FILE* out, int64_t num_steps, bool is_quiet);
  void step(int64_t step, double loss, double tokens_per_s);
  // Ends the live line, so that other output may follow.
  void pause();

 private:
  std::string bar(int64_t step) const;

  std::FILE* out_;
  int64_t num_steps_;
  bool is_quiet_, is_terminal_;
  bool is_open_ = false;
  std::chrono::steady_clock::time_point start_, last_;
  int64_t first_step_ = -1;
};

}  // namespace monograph::train
