#pragma once

#include <memory>
#include <string_view>

#include "diagnose/reader.h"
#include "diagnose/timeline/timeline.h"

// The timeline part of the room's registry.
namespace monograph::diagnose {

// One file; an Nsight report of several processes or devices holds one timeline for each.
struct TraceFacts : Facts {
  std::vector<Timeline> timelines;
};

bool accepts_kineto(std::string_view head, std::string_view path);
std::unique_ptr<Facts> read_kineto_file(Input& input);

bool accepts_nsight(std::string_view head, std::string_view path);
std::unique_ptr<Facts> read_nsight(Input& input);

void conclude_traces(const FactsList& facts, Report& report);

}  // namespace monograph::diagnose
