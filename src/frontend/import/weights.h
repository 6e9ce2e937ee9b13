#pragma once

#include <functional>
#include <string>
#include <vector>

#include "frontend/trace/state.h"

// A model's weights in a safetensors file, under the names and in the shapes of another library.
namespace monograph::import {

// One state of the model and the tensor of the file that holds it.
struct WeightName {
  trace::State state;
  std::string stored;         // the tensor's name in the file
  std::vector<int64_t> axes;  // axis i of the state is axis axes[i] of the tensor; empty: the same
};

struct WeightNames {
  std::vector<WeightName> weights;
  std::string optional_prefix;               // files have it before every name, or before none
  std::vector<std::string> ignored_endings;  // tensors that are no weights: masks, counters
  // A tensor that some files repeat, and the one that it must equal.
  std::vector<std::pair<std::string, std::string>> copies;
};

// The tensor's shape in the file.
ir::Shape stored_shape(const WeightName& weight);

// Gives every weight of the file, cast to its state's dtype, to `set` by the state's name. One
// UserError lists every tensor that is missing, unexpected, of another shape or no number.
void load_weights(const std::string& path, const WeightNames& names,
                  const std::function<void(const std::string&, ir::Literal)>& set);

// Writes the states, as `get` gives them by name, in the states' dtype.
void save_weights(const std::string& path, const WeightNames& names,
                  const std::function<ir::Literal(const std::string&)>& get);

}  // namespace monograph::import
