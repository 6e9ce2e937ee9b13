#pragma once

#include <vector>

#include "ir/program/program.h"
#include "passes/memory/layout.h"
#include "passes/memory/offsets.h"

namespace monograph::compiler {

// An address in a scratch buffer that has no place yet; assign_memory replaces it by the final one.
ir::Address address_in_buffer(int buffer, int64_t bytes);
// The buffer of such an address, and the bytes in it.
int buffer_of(const ir::Address& address);
int64_t bytes_in_buffer(const ir::Address& address);

// Gives scratch buffers their offsets, from the steps that use them: a buffer lives from the first
// to the last, and a collective uses its buffers until its wait. Sets the sizes of all segments.
// Returns the buffers' lifetimes, in steps.
std::vector<passes::Lifetime> assign_memory(ir::Program& program,
                                            const std::vector<passes::LayoutBuffer>& buffers);

}  // namespace monograph::compiler
