#pragma once

#include <memory>
#include <vector>

#include "ir/loop/loop.h"

namespace monograph::runtime {

// A Loop that runs without a compiler: each instruction is one call of a function that was compiled
// ahead, on a run of some hundred elements that stay in the first cache. Two to five times slower
// than generated code; the same blocks, in-place rules and order of sums over blocks, so that the
// results do not depend on the number of threads. They differ from generated code by rounding.
class VectorKernel {
 public:
  explicit VectorKernel(const ir::Loop& loop);
  ~VectorKernel();
  VectorKernel(VectorKernel&&) noexcept;

  // `arguments`: the addresses of the Loop's buffers, in order, then that of the launch's scalars
  // (int64_t), if it takes any.
  void run(void* const* arguments) const;

  struct Plan;

 private:
  std::unique_ptr<const Plan> plan_;
};

}  // namespace monograph::runtime
