#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "frontend/trace/functions.h"
#include "frontend/trace/trace.h"
#include "ir/program/program.h"

namespace monograph::trace {
namespace {

// Axes as the ops take them: sorted, from the left; all of them when none is given.
Axes sorted_axes(std::string_view op, const Axes& axes, const Tensor& x, const Location& where) {
  Axes sorted;
  for (int64_t axis : axes) sorted.push_back(resolve_axis(op, axis, x.rank(), where));
  if (axes.empty()) {
    for (int axis = 0; axis < x.rank(); ++axis) sorted.push_back(axis);
  }
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

Tensor reduce(std::string_view op, Argument x, const Axes& axes, bool keepdim) {
  const Caller caller(op, {x});
  const Tensor tensor = caller.read(x);
  Axes sorted = sorted_axes(op, axes, tensor, x.where());
  if (sorted.empty()) return tensor;
  return emit(op, {tensor}, {{"axes", std::move(sorted)}, {"keepdim", keepdim}});
}

int64_t num_reduced(const Tensor& x, const Tensor& reduced) {
  return x.shape().num_elements() / std::max<int64_t>(1, reduced.shape().num_elements());
}

// exp(x - max) and its sum, both with `axis` kept. The maximum only guards against overflow: no
// gradient flows through it.
struct Exponentials {
  Tensor maximum, shifted, exponentials, total;
};

Exponentials exponentials(const Tensor& x, int axis) {
  Exponentials result;
  result.maximum = detach(amax(x, {axis}, true));
  result.shifted = x - result.maximum;
  result.exponentials = exp(result.shifted);
  result.total = sum(result.exponentials, {axis}, true);
  return result;
}

void check_classes(const Tensor& rows, const Tensor& classes, const Location& where) {
  const std::vector<int64_t>& dims = rows.shape().dims();
  if (!dims.empty() && classes.shape() == ir::Shape({dims.begin(), dims.end() - 1}) &&
      ir::is_integer(classes.dtype())) {
    return;
  }
  throw_user_error(
      "[cross_entropy] logits {} and targets {}: use logits [..., classes] and "
      "integer targets [...]\n  at {}:{}",
      rows.type().str(), classes.type().str(), where.file_name(), where.line());
}

// -log softmax(rows)[class]: [..., classes] -> [..., 1].
Tensor row_losses(const Tensor& rows, const Tensor& classes) {
  return logsumexp(rows, -1, true) - gather(rows, classes.unsqueeze(-1), -1);
}

}  // namespace

int resolve_axis(std::string_view what, int64_t axis, int rank, const Location& where) {
  if (axis < -rank || axis >= rank) {
    throw_user_error("[{}] axis {} out of range for a tensor of rank {}: use {}..{}\n  at {}:{}",
                     what, axis, rank, -rank, rank - 1, where.file_name(), where.line());
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Tensor sum(Argument x, Axes axes, bool keepdim) {
  return reduce("sum", x, axes, keepdim);
}
Tensor amax(Argument x, Axes axes, bool keepdim) {
  return reduce("amax", x, axes, keepdim);
}

Tensor amin(Argument x, Axes axes, bool keepdim) {
  const Caller caller("amin", {x});
  return -amax(-x, std::move(axes), keepdim);
}

Tensor mean(Argument x, Axes axes, bool keepdim) {
  const Caller caller("mean", {x});
  const Tensor tensor = caller.read(x);
  const Tensor total = sum(tensor, std::move(axes), keepdim);
  return total * (1.0 / static_cast<double>(num_reduced(tensor, total)));
}

Tensor var(Argument x, Axes axes, bool keepdim, int64_t correction) {
  const Caller caller("var", {x});
  const Tensor tensor = caller.read(x);
  const Tensor centred = tensor - mean(tensor, axes, true);
  const Tensor total = sum(centred * centred, std::move(axes), keepdim);
  return total * (1.0 / static_cast<double>(num_reduced(tensor, total) - correction));
}

Tensor softmax(Argument x, int axis) {
  const Caller caller("softmax", {x});
  const Exponentials e = exponentials(caller.read(x), axis);
  return e.exponentials / e.total;
}

Tensor log_softmax(Argument x, int axis) {
  const Caller caller("log_softmax", {x});
  const Exponentials e = exponentials(caller.read(x), axis);
  return e.shifted - log(e.total);
}

Tensor logsumexp(Argument x, int axis, bool keepdim) {
  const Caller caller("logsumexp", {x});
  const Exponentials e = exponentials(caller.read(x), axis);
  const Tensor result = log(e.total) + e.maximum;
  return keepdim ? result : result.squeeze(axis);
}

Tensor layer_norm(Argument x, Argument weight, Argument bias, double epsilon) {
  const Caller caller("layer_norm", {x, weight, bias});
  const Tensor tensor = caller.read(x);
  const Tensor centred = tensor - mean(tensor, {-1}, true);
  const Tensor variance = mean(centred * centred, {-1}, true);
  return centred * rsqrt(variance + epsilon) * weight + bias;
}

Tensor rms_norm(Argument x, Argument weight, double epsilon) {
  const Caller caller("rms_norm", {x, weight});
  const Tensor tensor = caller.read(x);
  return tensor * rsqrt(mean(tensor * tensor, {-1}, true) + epsilon) * weight;
}

Tensor cross_entropy(Argument logits, Argument targets) {
  const Caller caller("cross_entropy", {logits, targets});
  const Tensor rows = caller.read(logits), classes = caller.read(targets);
  check_classes(rows, classes, logits.where());
  return mean(row_losses(rows, classes));
}

Tensor cross_entropy(Argument logits, Argument targets, int64_t ignored) {
  const Caller caller("cross_entropy", {logits, targets});
  const Tensor rows = caller.read(logits), classes = caller.read(targets);
  check_classes(rows, classes, logits.where());
  const Tensor is_valid = ne(classes, ignored);
  const Tensor losses = row_losses(rows, where(is_valid, classes, 0));
  const Tensor total = sum(where(is_valid.unsqueeze(-1), losses, 0.0));
  return total / maximum(count_valid(classes, ignored), 1.0);
}

Tensor count_valid(Argument targets, int64_t ignored) {
  const Caller caller("count_valid", {targets});
  return sum(ne(caller.read(targets), ignored).to(ir::DType::kF32));
}

Tensor mse_loss(Argument x, Argument target) {
  const Caller caller("mse_loss", {x, target});
  const Tensor difference = x - target;
  return mean(difference * difference);
}

Tensor linear(Argument x, Argument weight) {
  return matmul(x, weight);
}

Tensor linear(Argument x, Argument weight, Argument bias) {
  const Caller caller("linear", {x, weight, bias});
  return matmul(x, weight) + bias;
}

Tensor attention(Argument q, Argument k, Argument v, bool is_causal, double dropout_rate) {
  const Caller caller("attention", {q, k, v});
  const Tensor query = caller.read(q), key = caller.read(k), value = caller.read(v);
  const int64_t width = query.dim(-1);
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const bool has_kernel = query.rank() == 4 && width <= ir::AttentionStep::kMaxWidth;
  if (dropout_rate == 0 && has_kernel) {
    return emit_all("scaled_dot_product_attention", {query, key, value},
                    {{"causal", is_causal}, {"scale", scale}})[0];
  }
  Tensor scores = matmul(query, key.transpose(-1, -2)) * scale;
  if (is_causal) {
    Trace& trace = query.trace();
    const ir::TensorType positions{ir::DType::kI64, {query.dim(-2), key.dim(-2)}};
    const Tensor last_seen = trace.iota(positions, 0) + (key.dim(-2) - query.dim(-2));
    const Tensor is_past = ge(last_seen, trace.iota(positions, 1));
    scores = where(is_past, scores, -std::numeric_limits<double>::infinity());
  }
  return matmul(dropout(softmax(scores, -1), dropout_rate), value);
}

}  // namespace monograph::trace
