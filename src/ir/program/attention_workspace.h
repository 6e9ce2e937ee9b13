#pragma once

#include "ir/program/program.h"

namespace monograph::ir {

// What the backward of a bf16 AttentionStep takes on a GPU beside its operands, as cuDNN 9.19's
// deterministic kernels on Hopper do it: the gradient of q in f32, once for each 128 keys, added
// up in their order (without that order, once), and a number a row; the gradients of k and v by
// query head where heads share them. Next to nothing for other steps. Another cuDNN may want more:
// the executor then gives it memory of its own.
int64_t gpu_workspace_bytes(const AttentionStep& step);

}  // namespace monograph::ir
