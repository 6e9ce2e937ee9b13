#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "frontend/session/graph_family.h"
#include "frontend/session/guards.h"
#include "frontend/session/options.h"
#include "ir/size_grid.h"
#include "runtime/interpreter.h"

namespace monograph::session {

// Which axes of a function's inputs have dynamic sizes, and which sizes.
struct DynamicInputs {
  struct Place {
    size_t input = 0;
    int axis = 0;
    size_t size = 0;  // of grid.sizes()
  };
  ir::SizeGrid grid;
  std::vector<Place> places;
  std::vector<InputGuard> guards;  // of the call, with the ranges

  // The types of all inputs at these sizes, where all else is as in the call.
  std::vector<ir::TensorType> types_at(const CallFacts& call, const ir::SizeSteps& steps) const;
  // The sizes of a call for which the guards hold.
  ir::SizeSteps steps_of(const CallFacts& call) const;
};

// Nothing where no Dim of the options concerns this call, or the call is outside their ranges.
// UserError for Dims of an unknown input, of another rank than the input, or with an empty range.
std::optional<DynamicInputs> dynamic_inputs(const DynamicShapes& shapes, const CallFacts& call,
                                            std::span<const std::string> names);

// The shapes with one Dim, or two, kept apart from its largest size: where the call has that size
// it is fixed, else the range ends before it.
std::vector<DynamicShapes> shapes_without_largest(const DynamicShapes& shapes,
                                                  const CallFacts& call,
                                                  std::span<const std::string> names);

// The Dims that make the known guards hold for the call too, where it misses them by sizes only:
// each such axis ranges from 1 to the larger size. Nothing otherwise.
std::optional<DynamicShapes> widened_shapes(const Guards& known, const CallFacts& call,
                                            std::span<const std::string> names);

// A variant for many sizes: what its graph is at each, and for which that was looked at.
struct DynamicFunction {
  DynamicInputs inputs;
  GraphFamily family;
  std::set<ir::SizeSteps> known, refused;  // refused: the function is another one there
};

}  // namespace monograph::session
