#pragma once

#include <functional>
#include <string>
#include <vector>

#include "frontend/trace/tensor.h"

namespace monograph::trace {

// A function whose gradient the user writes. `forward` is traced once, and autodiff does not look
// into it: parameters that it reads, other than by its inputs, get no gradient. `backward` is
// traced in the backward pass, with the inputs and outputs of the call and one cotangent an output
// (zeros where the loss does not depend on it); it returns one gradient an input, of its shape and
// dtype, or an empty Tensor where none flows.
struct CustomGradient {
  using Tensors = std::vector<Tensor>;
  std::string name;
  std::function<Tensors(const Tensors& inputs)> forward;
  std::function<Tensors(const Tensors& inputs, const Tensors& outputs, const Tensors& cotangents)>
      backward;

  // Traces a call. UserError when forward returns nothing; in the backward pass, for gradients of
  // the wrong number, shape or dtype, naming the input and this place.
  Tensors operator()(const std::vector<TensorArgument>& inputs,
                     Location where = Location::current()) const;
};

}  // namespace monograph::trace
