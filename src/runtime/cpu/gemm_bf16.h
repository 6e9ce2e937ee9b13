#pragma once

#include <memory>

#include "ir/program/program.h"

namespace monograph::runtime {

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
