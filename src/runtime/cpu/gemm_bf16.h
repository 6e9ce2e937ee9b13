#pragma once

#include <memory>

#include "ir/program/program.h"

namespace monograph::runtime {

// Whether this processor multiplies bf16 faster than float32: with AMX, and with AVX-512's bf16
// instructions except on Intel's processors since Sapphire Rapids, where without AMX (in a virtual
// machine that hides it) they do half the products of float32 ones a cycle. Measured there, one
// core: 82 GFLOP/s against 155.
bool is_bf16_fast();

// A GemmStep of bf16 operands with its addresses: one oneDNN matmul primitive, made once. It
// accumulates in float32 and adds a float32 or bf16 bias before it rounds.
class GemmBF16 {
 public:
  // `bias` is null where the step has none. Memory is the caller's and must outlive this.
  GemmBF16(const ir::GemmStep& step, void* a, void* b, void* c, void* bias);
  void run() const;
  // The name of oneDNN's implementation: "brg:avx512_core_bf16"; "ref:any" is slow.
  const char* implementation() const;

 private:
  struct Primitive;
  std::shared_ptr<Primitive> primitive_;
};

}  // namespace monograph::runtime
