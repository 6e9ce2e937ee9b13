#include "frontend/trace/accumulate.h"

#include "base/error.h"
#include "frontend/trace/functions.h"
#include "frontend/trace/trace.h"

namespace monograph::trace {
namespace {

void check_batch(int64_t count, const std::vector<Tensor>& batch, const Location& where) {
  if (count < 1 || batch.empty()) {
    throw_user_error(
        "accumulate of {} micro-batches of {} tensors: use 1 or more of each\n  at {}:{}", count,
        batch.size(), where.file_name(), where.line());
  }
  for (const Tensor& tensor : batch) {
    if (tensor.rank() >= 1 && tensor.dim(0) % count == 0) continue;
    throw_user_error(
        "accumulate: {} cannot be split into {} micro-batches: use a batch that {} divides\n  at "
        "{}:{}",
        tensor.type().str(), count, count, where.file_name(), where.line());
  }
}

}  // namespace

Accumulated accumulate(int64_t count, const std::vector<Tensor>& batch,
                       const std::function<Tensor(const std::vector<Tensor>&)>& loss,
                       Location where) {
  check_batch(count, batch, where);
  Trace& trace = batch[0].trace();
  Tensor total;
  std::vector<State> parameters;
  std::vector<Tensor> sums;  // beside parameters
  for (int64_t part = 0; part < count; ++part) {
    std::vector<Tensor> slice;
    for (const Tensor& tensor : batch) {
      const int64_t rows = tensor.dim(0) / count;
      slice.push_back(count == 1 ? tensor : tensor.slice(0, part * rows, (part + 1) * rows, where));
    }
    const PartOfBatch numbered(trace, part, count);
    // Scaled before differentiating: the gradients then need no more than to be added.
    Tensor share = loss(slice);
    if (count > 1) share = share * (1.0 / static_cast<double>(count));
    const Gradients gradients = share.backward(where);
    const PhaseScope phase(trace, ir::Phase::kBackward);
    total = total ? total + share : share;
    for (const State& parameter : gradients.parameters()) {
      size_t at = 0;
      while (at < parameters.size() && !parameters[at].is_same(parameter)) ++at;
      if (at == parameters.size()) {
        parameters.push_back(parameter);
        sums.push_back(gradients[parameter]);
      } else {
        sums[at] = sums[at] + gradients[parameter];
      }
    }
  }
  Gradients gradients(trace.shared_from_this());
  for (size_t at = 0; at < parameters.size(); ++at) gradients.add(parameters[at], sums[at]);
  return {total, std::move(gradients)};
}

}  // namespace monograph::trace
