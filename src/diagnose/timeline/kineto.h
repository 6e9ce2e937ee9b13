#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "diagnose/timeline/timeline.h"

namespace monograph::diagnose {

// True for the head of a Chrome trace that PyTorch's profiler (Kineto) wrote, or of another with
// its fields.
bool looks_like_kineto(std::string_view head);

// Reads a Kineto trace given piece by piece; memory grows with the device work in it, not with the
// file. Damaged events are skipped and counted; a file that ends early gives what it held.
class KinetoReader {
 public:
  explicit KinetoReader(std::string source);
  ~KinetoReader();

  void feed(std::string_view piece);
  // Throws UserError if the file held no event at all.
  Timeline finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Microseconds with a fraction, "4458676983543.183", as nanoseconds; false if that is no number.
bool parse_microseconds(std::string_view text, int64_t& ns);

}  // namespace monograph::diagnose
