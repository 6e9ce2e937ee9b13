#pragma once

#include <vector>

#include "frontend/trace/tensor.h"

// What can be written over traced tensors. Each function appends one node, or the few primitives of
// a composition; all keep the operands' dtype unless said otherwise. Operands broadcast as in
// numpy.
namespace monograph::trace {

using Argument = const TensorArgument&;

Tensor operator+(Argument a, Argument b);
Tensor operator-(Argument a, Argument b);
Tensor operator*(Argument a, Argument b);
Tensor operator/(Argument a, Argument b);
Tensor operator-(Argument a);

Tensor pow(Argument base, Argument exponent);
Tensor maximum(Argument a, Argument b);
Tensor minimum(Argument a, Argument b);
Tensor clamp(Argument x, double low, double high);

// Comparisons give bool.
Tensor eq(Argument a, Argument b);
Tensor ne(Argument a, Argument b);
Tensor lt(Argument a, Argument b);
Tensor le(Argument a, Argument b);
Tensor gt(Argument a, Argument b);
Tensor ge(Argument a, Argument b);
Tensor logical_and(Argument a, Argument b);
Tensor logical_or(Argument a, Argument b);
Tensor logical_not(Argument a);
// `a` where the condition holds, else `b`.
Tensor where(Argument condition, Argument a, Argument b);

Tensor abs(Argument x);
Tensor cos(Argument x);
Tensor erf(Argument x);
Tensor exp(Argument x);
Tensor log(Argument x);
Tensor reciprocal(Argument x);
Tensor rsqrt(Argument x);
Tensor sin(Argument x);
Tensor sqrt(Argument x);
Tensor tanh(Argument x);
// A residual stream at a place where something was added to it: f32, rounded to what the precision
// keeps it in (see Precision).
Tensor residual(Argument x);
Tensor detach(Argument x);  // the same value; no gradient flows through

Tensor relu(Argument x);
Tensor sigmoid(Argument x);
Tensor silu(Argument x);  // x sigmoid(x)
enum class Gelu { kErf, kTanh };
Tensor gelu(Argument x, Gelu approximation = Gelu::kErf);

// Reductions over the given axes; over all of them if none is given.
Tensor sum(Argument x, Axes axes = {}, bool keepdim = false);
Tensor mean(Argument x, Axes axes = {}, bool keepdim = false);
Tensor amax(Argument x, Axes axes = {}, bool keepdim = false);
Tensor amin(Argument x, Axes axes = {}, bool keepdim = false);
// Sum of squared differences from the mean, divided by the count less `correction`.
Tensor var(Argument x, Axes axes = {}, bool keepdim = false, int64_t correction = 1);

Tensor softmax(Argument x, int axis = -1);
Tensor log_softmax(Argument x, int axis = -1);
Tensor logsumexp(Argument x, int axis = -1, bool keepdim = false);
// Over the last axis; weight and bias have its size.
Tensor layer_norm(Argument x, Argument weight, Argument bias, double epsilon = 1e-5);
// x weight / sqrt(mean(x^2) + epsilon), likewise.
Tensor rms_norm(Argument x, Argument weight, double epsilon = 1e-5);
// Mean over all rows of -log softmax(logits)[target]. logits: [..., classes]; targets: integers
// [...].
Tensor cross_entropy(Argument logits, Argument targets);
// Over the rows whose target is not `ignored`; 0 where there is none.
Tensor cross_entropy(Argument logits, Argument targets, int64_t ignored);
// How many targets are not `ignored`, f32[].
Tensor count_valid(Argument targets, int64_t ignored);
Tensor mse_loss(Argument x, Argument target);

// [..., m, k] x [..., k, n] -> [..., m, n]; a second operand of rank 2 serves every leading index.
Tensor matmul(Argument a, Argument b);
// x @ weight + bias; x: [..., in], weight: [in, out], bias: [out].
Tensor linear(Argument x, Argument weight, Argument bias);
Tensor linear(Argument x, Argument weight);
// Rows of weight [count, width] at integers [...]: [..., width].
Tensor embedding(Argument weight, Argument ids);
// The element at `index` along an axis; index has x's rank.
Tensor gather(Argument x, Argument index, int axis);
// softmax(q k' / sqrt(width)) v over [batch, heads, length, width]; causal: the last query sees all
// keys. Without dropout the scores are never in memory, and k and v may have fewer heads, each for
// an equal share of q's.
Tensor attention(Argument q, Argument k, Argument v, bool is_causal, double dropout_rate = 0);
// Zeros elements at random, new ones each step, and divides the others by what is kept.
Tensor dropout(Argument x, double rate);

// Images lie channels last, [batch, height, width, channels]; weight: [height, width, in, out].
// `padding` zeros on each side; nothing for max_pool2d, where they never win.
Tensor conv2d(Argument x, Argument weight, int64_t stride = 1, int64_t padding = 0);
Tensor max_pool2d(Argument x, int64_t kernel, int64_t stride, int64_t padding = 0);
// The mean of each channel over the whole image: [batch, channels].
Tensor global_avg_pool2d(Argument x);

Tensor cat(const std::vector<Tensor>& parts, int axis, Location where = Location::current());
Tensor stack(const std::vector<Tensor>& parts, int axis, Location where = Location::current());

// Sizes and axes of an op, checked; `what` names the op in the UserError.
int resolve_axis(std::string_view what, int64_t axis, int rank, const Location& where);

}  // namespace monograph::trace
