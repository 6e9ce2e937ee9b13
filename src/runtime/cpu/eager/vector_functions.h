#pragma once

#include <cstdint>

#include "ir/loop/loop.h"

// Scalar functions over runs of elements, compiled ahead for the instruction sets that x86-64
// processors have: what the eager path uses where generated code is not there yet. Registers are
// float (f32), double (f64), int64_t (i64) or uint8_t (bool).
namespace monograph::runtime {

struct VectorOperand {
  const void* data = nullptr;
  bool is_vector = false;  // false: one value for all elements
};

int64_t register_bytes(ir::RegisterType type);

// out[i] = op(x[0][i], ...) for i < n. `from`: the type of the last operand (of x[1] for where).
void apply(ir::ScalarOp op, ir::RegisterType from, ir::RegisterType type, const VectorOperand* x,
           void* out, int64_t n);

// out[i] = source[i * stride], widened to a register. `source` is the address of element 0.
void load_elements(ir::DType dtype, const void* source, int64_t stride, void* out, int64_t n);
// target[i * stride] = values[i], rounded (nearest even) to the dtype.
void store_elements(ir::DType dtype, const VectorOperand& values, void* target, int64_t stride,
                    int64_t n);

// total = total + or max of all values; a total is a double, or an int64_t for i64. NaN wins.
void reduce(ir::Reduction reduction, ir::RegisterType type, const VectorOperand& values,
            void* total, int64_t n);
// totals[i] += or max= values[i], in the register type.
void accumulate(ir::Reduction reduction, ir::RegisterType type, const VectorOperand& values,
                void* totals, int64_t n);

}  // namespace monograph::runtime
