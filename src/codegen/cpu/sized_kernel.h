#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/cpu/kernel_source.h"
#include "ir/loop/loop.h"
#include "ir/size_grid.h"

namespace monograph::codegen {

// One kernel for all sizes of a grid. A launch gives, behind its own scalars, `numbers` and then
// `reals` at its sizes, 8 bytes each.
struct SizedKernel {
  KernelSource source;
  std::vector<ir::SizeNumber> numbers;
  std::vector<ir::SizeReal> reals;

  std::vector<int64_t> arguments_at(const ir::SizeSteps& steps) const;
};

// `loops`: the kernel at each instance of the grid, the first with the schedule that the others
// have too. Their texts must differ in numbers only, each a polynomial of the sizes; if not, there
// is no such kernel, and `why` says what depends on the sizes otherwise.
std::optional<SizedKernel> make_sized_kernel(const ir::SizeGrid& grid,
                                             std::span<const ir::Loop* const> loops,
                                             std::string& why);

}  // namespace monograph::codegen
