#pragma once

#include <memory>

#include "diagnose/nccl/nccl_log.h"
#include "diagnose/reader.h"

// The NCCL part of the room's registry.
namespace monograph::diagnose {

struct NcclFacts : Facts {
  NcclLog log;
};

std::unique_ptr<LineReader> make_nccl_reader();

void conclude_nccl(const FactsList& facts, Report& report);

}  // namespace monograph::diagnose
