#include <cmath>
#include <numbers>

#include "base/error.h"
#include "frontend/trace/functions.h"
#include "frontend/trace/trace.h"

namespace monograph::trace {

Tensor operator+(Argument a, Argument b) {
  return emit("add", {a, b});
}
Tensor operator-(Argument a, Argument b) {
  return emit("sub", {a, b});
}
Tensor operator*(Argument a, Argument b) {
  return emit("mul", {a, b});
}
Tensor operator/(Argument a, Argument b) {
  return emit("div", {a, b});
}
Tensor operator-(Argument a) {
  return emit("neg", {a});
}

Tensor pow(Argument base, Argument exponent) {
  return emit("pow", {base, exponent});
}
Tensor maximum(Argument a, Argument b) {
  return emit("maximum", {a, b});
}
Tensor minimum(Argument a, Argument b) {
  return emit("minimum", {a, b});
}

Tensor eq(Argument a, Argument b) {
  return emit("eq", {a, b});
}
Tensor ne(Argument a, Argument b) {
  return emit("ne", {a, b});
}
Tensor lt(Argument a, Argument b) {
  return emit("lt", {a, b});
}
Tensor le(Argument a, Argument b) {
  return emit("le", {a, b});
}
Tensor gt(Argument a, Argument b) {
  return emit("gt", {a, b});
}
Tensor ge(Argument a, Argument b) {
  return emit("ge", {a, b});
}
Tensor logical_and(Argument a, Argument b) {
  return emit("logical_and", {a, b});
}
Tensor logical_or(Argument a, Argument b) {
  return emit("logical_or", {a, b});
}
Tensor logical_not(Argument a) {
  return emit("logical_not", {a});
}
Tensor where(Argument condition, Argument a, Argument b) {
  return emit("where", {condition, a, b});
}

Tensor abs(Argument x) {
  return emit("abs", {x});
}
Tensor cos(Argument x) {
  return emit("cos", {x});
}
Tensor erf(Argument x) {
  return emit("erf", {x});
}
Tensor exp(Argument x) {
  return emit("exp", {x});
}
Tensor log(Argument x) {
  return emit("log", {x});
}
Tensor reciprocal(Argument x) {
  return emit("reciprocal", {x});
}
Tensor rsqrt(Argument x) {
  return emit("rsqrt", {x});
}
Tensor sin(Argument x) {
  return emit("sin", {x});
}
Tensor sqrt(Argument x) {
  return emit("sqrt", {x});
}
Tensor tanh(Argument x) {
  return emit("tanh", {x});
}
Tensor residual(Argument x) {
  const Caller caller("residual", {x});
  const Tensor tensor = caller.read(x);
  const ir::DType kept = caller.trace().precision().residual;
  return tensor.dtype() == ir::DType::kF32 ? tensor.to(kept).to(ir::DType::kF32) : tensor;
}

Tensor detach(Argument x) {
  return emit("detach", {x});
}

Tensor clamp(Argument x, double low, double high) {
  const Caller caller("clamp", {x});
  return where(le(x, low), low, where(ge(x, high), high, x));  // the gradient at an end is 0
}

Tensor relu(Argument x) {
  const Caller caller("relu", {x});
  return where(le(x, 0.0), 0.0, x);  // the gradient at 0 is 0
}

Tensor sigmoid(Argument x) {
  const Caller caller("sigmoid", {x});
  // exp of a positive number would overflow, and its gradient be NaN.
  const Tensor is_positive = ge(x, 0.0);
  const Tensor small = exp(-where(is_positive, x, -x));
  return where(is_positive, 1.0, small) / (1.0 + small);
}

Tensor silu(Argument x) {
  const Caller caller("silu", {x});
  return x * sigmoid(x);
}

Tensor gelu(Argument x, Gelu approximation) {
  const Caller caller("gelu", {x});
  if (approximation == Gelu::kErf) {
    return 0.5 * x * (1.0 + erf(x * (1 / std::numbers::sqrt2)));
  }
  const double scale = std::sqrt(2 / std::numbers::pi);
  return 0.5 * x * (1.0 + tanh(scale * (x + 0.044715 * (x * x * x))));
}

Tensor dropout(Argument x, double rate) {
  const Caller caller("dropout", {x});
  if (rate < 0 || rate >= 1) {
    throw_user_error("[dropout] rate {} at {}:{}: use 0 up to, not including, 1", rate,
                     x.where().file_name(), x.where().line());
  }
  const Tensor tensor = caller.read(x);
  if (rate == 0) return tensor;
  const double keep = 1 - rate;
  Trace& trace = tensor.trace();
  const Tensor draw = trace.random_uniform(tensor.shape(), trace.comes_from_inputs(tensor)
                                                               ? Trace::Spread::kPartOfBatch
                                                               : Trace::Spread::kSameOnAllRanks);
  return where(lt(draw, keep), tensor * (1 / keep), 0.0);
}

}  // namespace monograph::trace
