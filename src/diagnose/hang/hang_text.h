#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "diagnose/hang/progress.h"

namespace monograph::diagnose {

// Gathers what text logs say of a hang: the NCCL watchdog's lines of PyTorch 2.0 to 2.14, the
// desync report, the fingerprints and mismatches of TORCH_DISTRIBUTED_DEBUG=DETAIL, gloo's
// monitored barrier and time-outs, and torchrun's account of the rank that died first. Lines of all
// ranks may be mixed.
class HangText {
 public:
  HangText();
  ~HangText();

  // One line without its launcher prefix; rank is what the prefix said, -1 if nothing.
  void read(std::string_view text, int rank);

  // A line of this rank that has nothing to do with hangs.
  void see(int rank);

  // Progress::empty() if the text told of no collective trouble.
  Progress finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace monograph::diagnose
