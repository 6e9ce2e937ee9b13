#pragma once

#include "ir/device_spec.h"
#include "ir/loop/loop.h"

// Which element values a row buffer holds between sweeps. The sweeps have been decided.
namespace monograph::codegen {

// For a cache: values that cost more than a load, while the row buffer is short.
void keep_costly_values(ir::Loop& loop);

// For a GPU: whatever several sweeps need, so that a row is read from memory once, as few bytes of
// it as will do; if a row does not fit on chip, what is costly is computed again, and at last all
// is read again.
void keep_row_on_chip(ir::Loop& loop, const ir::DeviceSpec& device);

}  // namespace monograph::codegen
