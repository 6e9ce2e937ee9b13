#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/reader.h"

// What NCCL's inspector plugin writes: a JSON object for each collective of each rank.
namespace monograph::diagnose {

struct InspectedCall {
  std::string communicator;  // header.id
  int rank = -1;             // in the communicator
  std::string op;            // "AllReduce"
  std::int64_t sequence = -1;
  std::int64_t num_bytes = 0;
  double microseconds = 0;
  double bus_gbs = 0;
};

struct InspectorFacts : Facts {
  std::vector<InspectedCall> calls;
  std::int64_t num_left_out = 0;  // beyond what is kept
  std::int64_t num_torn = 0;
};

bool accepts_inspector(std::string_view head, std::string_view path);
std::unique_ptr<Facts> read_inspector(Input& input);

// A rank that the others wait for, and the speed of each kind and size of collective.
void conclude_inspector(const FactsList& facts, Report& report);

}  // namespace monograph::diagnose
