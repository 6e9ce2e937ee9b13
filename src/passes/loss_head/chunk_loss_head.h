#pragma once

#include "passes/pass.h"

namespace monograph::passes {

// Does a loss head in chunks of rows, forward and backward of a chunk back to back, so that the
// logits never exist whole. A head is a forward product of more than `context.loss_chunk_bytes`
// whose result is read row by row only, up to sums over all rows, of which one is forward (the
// loss), and products (gradients).
//   before: l = matmul(x, w); p = sum(f(l)); g = f'(l); dx = matmul(g, w^T); dw = matmul(x^T, g)
//   after:  for each chunk c of equal size, one after the other:
//             x_c = after(slice(x), dx_{c-1}, dw_{c-1}); l_c = matmul(x_c, w); g_c = f'(l_c)
//             p_c = p_{c-1} + sum(f(l_c)); dx_c = matmul(g_c, w^T)
//             dw_c = addmm(dw_{c-1}, slice(x^T), g_c)      in place, f32 also for bf16
//           dx = cat(dx_0, dx_1, ...)
// Any loss of this form is taken (Liger Kernel, Hsu et al., 2024, has one kernel for cross
// entropy). A remark tells the number of chunks, or why a wide product was left. Needs: reductions
// legalised. Keeps: types; numbers up to the order of sums.
bool chunk_loss_head(ir::Graph& graph, PassContext& context);

}  // namespace monograph::passes
