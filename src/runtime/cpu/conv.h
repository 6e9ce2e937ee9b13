#pragma once

#include <memory>

#include "ir/program/program.h"

namespace monograph::runtime {

// A convolution or one of its gradients, on bound memory: oneDNN's, f64 by plain loops.
class Conv {
 public:
  Conv(const ir::ConvStep& step, void* x, void* weight, void* y);
  void run() const;
  // What oneDNN chose ("brgconv:avx512_core"), or "loops".
  const char* implementation() const;

  struct Primitive;

 private:
  std::shared_ptr<const Primitive> primitive_;
};

}  // namespace monograph::runtime
