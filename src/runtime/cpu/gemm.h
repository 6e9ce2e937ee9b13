#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/program/program.h"

namespace monograph::runtime {

// A GemmStep with its addresses: float32 by oneDNN, bf16 widened to it (where that is faster, see
// gemm_bf16.h), float64 by plain loops. The product is cut into tiles whatever the number of
// threads, each computed by one of them, so that its bits do not depend on it.
class Gemm {
 public:
  // `bias` is null where the step has none. Memory is the caller's and must outlive the Gemm.
  Gemm(const ir::GemmStep& step, const void* a, const void* b, void* c, const void* bias);
  void run() const;

  int num_tiles() const { return static_cast<int>(tiles_.size()); }

 private:
  struct Tile {
    int64_t a, b, c;      // element offsets of the tile's first row and column
    int64_t row, column;  // in the product of its batch item
    int64_t num_rows, num_columns;
  };
  void add_tiles(int64_t a, int64_t b, int64_t c, int64_t num_rows, int64_t num_columns);
  void run_float(const Tile& tile) const;
  void run_double(const Tile& tile) const;
  // `serial` tells the runs of all products apart: a panel stays widened within one.
  void run_widened(const Tile& tile, int64_t serial) const;
  void add_wide_bias(float* c, int64_t ldc, const Tile& tile) const;
  template <typename T>
  void add_bias(T* c, const Tile& tile) const;

  ir::GemmStep step_;
  const void* a_;
  const void* b_;
  void* c_;
  const void* bias_;
  std::vector<Tile> tiles_;
};

std::string gemm_library_version();  // "2.6.3 52b5f107", of oneDNN

}  // namespace monograph::runtime
