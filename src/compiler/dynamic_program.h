#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/cpu/sized_kernel.h"
#include "compiler/compile.h"
#include "ir/size_grid.h"

namespace monograph::compiler {

// A Program for all sizes of a grid. Kernels take sizes as arguments; memory is planned once, for
// the largest sizes; every other number of the Program is a polynomial of the sizes.
struct DynamicProgram {
  Compilation largest;                        // at the largest sizes
  std::vector<codegen::SizedKernel> kernels;  // one a KernelStep, in order

  struct Numbers;
  std::shared_ptr<const Numbers> numbers;

  // The Program at other sizes. Its kernel k is the Loop of kernels[k] there, and its KernelSteps
  // are numbered so.
  ir::Program program_at(const ir::SizeSteps& steps) const;
};

// `traced`: the step traced at each instance of the grid. The pipeline runs for each, and what
// comes out must differ in numbers only; if not, there is no such Program and `why` says what it is
// that the sizes decide. Heads of losses are not chunked, and `options.link` is as in compile().
std::shared_ptr<DynamicProgram> compile_dynamic(const ir::SizeGrid& grid,
                                                std::span<const ir::Graph* const> traced,
                                                passes::StateLayout& states, PassOptions options,
                                                std::string& why);

}  // namespace monograph::compiler
