#pragma once

#include <functional>

#include "ir/program/program.h"
#include "runtime/cpu/attention/kernel.h"

namespace monograph::runtime {

// An AttentionStep with its addresses, for the best instructions that the processor has.
class Attention {
 public:
  // UserError when the step's heads are too wide (see AttentionStep). `memory` gives the bytes at
  // an address; they must outlive the Attention.
  Attention(const ir::AttentionStep& step,
            const std::function<std::byte*(const ir::Address&)>& memory,
            const attention::Kernel& kernel = best_kernel());
  void run() const;

  static const attention::Kernel& best_kernel();

 private:
  void run_forward() const;
  void run_backward() const;

  attention::Task task_;
  bool is_backward_;
  const attention::Kernel& kernel_;
};

}  // namespace monograph::runtime
