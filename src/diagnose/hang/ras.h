#pragma once

#include <memory>
#include <string_view>

#include "diagnose/hang/progress.h"

namespace monograph::diagnose {

// True for the head of what NCCL's RAS client prints with `-f json`.
bool looks_like_ras_json(std::string_view head);

// Reads RAS's JSON (NCCL 2.28 and later): missing ranks, errors and collective counts of every
// communicator. A rank is the one in the largest communicator that its process belongs to. Throws
// UserError naming the path.
Progress read_ras_json(std::string_view text, std::string_view path);

// Reads RAS's text form, NCCL 2.24 and later, alone or inside other output.
class RasText {
 public:
  RasText();
  ~RasText();
  void read(std::string_view line);
  Progress finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace monograph::diagnose
