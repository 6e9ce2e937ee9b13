#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/cpu/compile.h"
#include "ir/literal.h"
#include "ir/loop/loop.h"

// What tests of generated code share: buffers that fit a Loop, and the comparison with
// ir::evaluate.
namespace monograph::codegen {

struct BufferSet {
  std::vector<ir::Literal> storage;  // one a buffer; empty where another's memory is used
  std::vector<void*> addresses;
};

struct CheckOptions {
  uint64_t seed = 1;
  int64_t index_extent = 1;                  // loaded integers are in 0..index_extent-1
  double relative = 2e-5;                    // allowed difference of f32, of the largest element
  std::map<int, int> aliases = {};           // output buffer -> the input whose memory it is
  std::map<int, ir::Literal> contents = {};  // of buffers that must not be random
};

// Elements of each buffer that the loop's accesses reach, if loaded integers are below
// `index_extent`.
std::vector<int64_t> buffer_sizes(const ir::Loop& loop, int64_t index_extent);

// Buffers as large as the loop's accesses reach, inputs random (floats in -2..2), outputs 7.
BufferSet make_buffers(const ir::Loop& loop, const CheckOptions& options);

// The first element of an output that differs by more than a few roundings, or empty.
std::string difference(const ir::Loop& loop, const BufferSet& got, const BufferSet& expected,
                       double relative = 2e-5);

// Compiles the loops together, runs each and the oracle on equal buffers; the first difference.
std::string difference_from_oracle(const std::vector<ir::Loop>& loops,
                                   const CheckOptions& options = {});
std::string difference_from_oracle(const ir::Loop& loop, const CheckOptions& options = {});

// Where these tests keep compiled kernels, so that they leave the user's cache alone.
CompileOptions test_compile_options();

}  // namespace monograph::codegen
