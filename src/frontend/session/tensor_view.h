#pragma once

#include <string>
#include <vector>

#include "frontend/session/guards.h"
#include "ir/literal.h"

namespace monograph::session {

// A tensor that somebody else owns, as frameworks exchange them (DLPack): where it lies and how.
struct TensorView {
  ir::TensorType type;
  const void* data = nullptr;
  std::vector<int64_t> strides = {};  // in elements, one an axis; empty: dense and row-major
  std::string device = std::string(kHostDevice);
};

// The elements of a view in host memory, in the order in which they lie there: where that is dense,
// whatever the order of the axes, a step is compiled for it and nothing is transposed on the way.
struct InputCopy {
  ir::Literal literal;         // of the axes `order`
  std::vector<int64_t> order;  // as in InputFacts
};

// Views with gaps or overlaps become row-major. UserError for a view on another device, or one
// with strides of another rank.
InputCopy copy_input(const TensorView& view, const std::string& name);

}  // namespace monograph::session
