#pragma once

#include <cstdint>
#include <vector>

#include "ir/program/program.h"

namespace monograph::runtime {

// A GemmStep with its addresses: float32 by oneDNN, float64 by plain loops.
class Gemm {
 public:
  // `bias` is null where the step has none. Memory is the caller's and must outlive the Gemm.
  Gemm(const ir::GemmStep& step, const void* a, const void* b, void* c, const void* bias);
  void run() const;

 private:
  struct Item {  // of the batch: element offsets
    int64_t a, b, c;
  };
  void run_float(const Item& item) const;
  void run_double(const Item& item) const;
  template <typename T>
  void add_bias(T* c) const;

  ir::GemmStep step_;
  const void* a_;
  const void* b_;
  void* c_;
  const void* bias_;
  std::vector<Item> items_;
  bool is_parallel_over_items_ = false;
};

}  // namespace monograph::runtime
