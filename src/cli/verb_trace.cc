#include "cli/diagnosis.h"
#include "cli/verbs.h"

namespace monograph::cli {

int run_trace(std::span<const std::string> args) {
  return run_diagnosis(
      "monograph trace",
      "overlap, exposed communication, idle time, stragglers and copies from Kineto and Nsight "
      "Systems traces; hangs from flight recorder dumps",
      args);
}

}  // namespace monograph::cli
