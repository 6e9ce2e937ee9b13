#include <algorithm>
#include <cmath>

#include "runtime/cpu/attention/kernel.h"

// float64 for tests of gradients: plain loops, scores computed again instead of kept.
namespace monograph::runtime::attention {
namespace {

double* row_of(const Tensor& tensor, int64_t batch, int64_t head, int64_t row) {
  return static_cast<double*>(tensor.data) + batch * tensor.batch_stride +
         head * tensor.head_stride + row * tensor.row_stride;
}

double dot(const double* a, const double* b, int64_t width) {
  double sum = 0;
  for (int64_t d = 0; d < width; ++d) sum += a[d] * b[d];
  return sum;
}

void add(double factor, const double* a, double* to, int64_t width) {
  for (int64_t d = 0; d < width; ++d) to[d] += factor * a[d];
}

int64_t num_seen(const Task& task, int64_t query) {
  return task.causal ? query + task.keys - task.queries + 1 : task.keys;
}

void forward_query(const Task& task, int64_t batch, int64_t head, int64_t query) {
  const int64_t kv_head = head / (task.heads / task.kv_heads);
  const double* const q = row_of(task.q, batch, head, query);
  const auto score = [&](int64_t key) {
    return task.scale * dot(q, row_of(task.k, batch, kv_head, key), task.width);
  };
  double highest = -INFINITY, sum = 0;
  for (int64_t key = 0; key < num_seen(task, query); ++key) {
    const double value = score(key), top = std::fmax(highest, value);
    sum = sum * std::exp(highest - top) + std::exp(value - top);
    highest = top;
  }
  const double logsumexp = highest + std::log(sum);
  double* const output = row_of(task.output, batch, head, query);
  std::fill_n(output, task.width, 0.0);
  for (int64_t key = 0; key < num_seen(task, query); ++key) {
    add(std::exp(score(key) - logsumexp), row_of(task.v, batch, kv_head, key), output, task.width);
  }
  *row_of(task.logsumexp, batch, head, query) = logsumexp;
}

void backward_query(const Task& task, int64_t batch, int64_t head, int64_t query) {
  const int64_t kv_head = head / (task.heads / task.kv_heads), width = task.width;
  const double* const q = row_of(task.q, batch, head, query);
  const double* const grad_output = row_of(task.grad_output, batch, head, query);
  double* const grad_q = row_of(task.grad_q, batch, head, query);
  const double delta = dot(grad_output, row_of(task.output, batch, head, query), width);
  const double logsumexp = *row_of(task.logsumexp, batch, head, query);
  std::fill_n(grad_q, width, 0.0);
  for (int64_t key = 0; key < num_seen(task, query); ++key) {
    const double* const k = row_of(task.k, batch, kv_head, key);
    const double weight = std::exp(task.scale * dot(q, k, width) - logsumexp);
    const double grad_weight = dot(grad_output, row_of(task.v, batch, kv_head, key), width);
    const double grad_score = task.scale * weight * (grad_weight - delta);
    add(grad_score, k, grad_q, width);
    add(grad_score, q, row_of(task.grad_k, batch, kv_head, key), width);
    add(weight, grad_output, row_of(task.grad_v, batch, kv_head, key), width);
  }
}

}  // namespace

void forward_in_double(const Task& task) {
#pragma omp parallel for collapse(2)
  for (int64_t batch = 0; batch < task.batch; ++batch) {
    for (int64_t head = 0; head < task.heads; ++head) {
      for (int64_t query = 0; query < task.queries; ++query) {
        forward_query(task, batch, head, query);
      }
    }
  }
}

void backward_in_double(const Task& task) {
#pragma omp parallel for collapse(2)
  for (int64_t batch = 0; batch < task.batch; ++batch) {
    for (int64_t kv_head = 0; kv_head < task.kv_heads; ++kv_head) {
      for (int64_t key = 0; key < task.keys; ++key) {
        std::fill_n(row_of(task.grad_k, batch, kv_head, key), task.width, 0.0);
        std::fill_n(row_of(task.grad_v, batch, kv_head, key), task.width, 0.0);
      }
      const int64_t group = task.heads / task.kv_heads;
      for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        for (int64_t query = 0; query < task.queries; ++query) {
          backward_query(task, batch, head, query);
        }
      }
    }
  }
}

}  // namespace monograph::runtime::attention
