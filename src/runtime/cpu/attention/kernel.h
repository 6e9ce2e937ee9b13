#pragma once

#include <cstdint>

#include "ir/program/program.h"

// The seam between what is launched (attention.cc) and the code for each instruction set.
namespace monograph::runtime::attention {

// A tensor [batch, head, position, width] (logsumexp: without width): strides of the first three
// in elements; the last dim has stride 1.
struct Tensor {
  void* data = nullptr;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
};

// The widest heads: a thread keeps its scratch on its stack.
inline constexpr int64_t kMaxWidth = ir::AttentionStep::kMaxWidth;

struct Task {
  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, width = 0;
  bool causal = false;                // query i sees keys up to i + keys - queries
  ir::DType dtype = ir::DType::kF32;  // of all but logsumexp, which is float (f64: double)
  double scale = 1;
  Tensor q, k, v, output, logsumexp;
  Tensor grad_output, grad_q, grad_k, grad_v;  // backward only
  float* delta = nullptr;  // [batch, heads, queries]: sum of grad_output * output
  int64_t num_splits = 1;  // of the keys: gradients of q are summed over them at the end
  int64_t keys_per_split = 0;
  // [split, batch, heads, queries, padded_width]; null: added up in grad_q itself, whose width is
  // then the padded one.
  float* grad_q_parts = nullptr;
  int64_t padded_width = 0;  // whole vectors
};

// For f32 and bf16, what one thread does at a time. Jobs are independent, and the numbers do not
// depend on who does which.
struct Kernel {
  const char* name;
  int64_t queries_per_job;
  void (*forward)(const Task& task, int64_t batch, int64_t head, int64_t first_query);
  void (*delta)(const Task& task, int64_t batch, int64_t head);
  void (*backward)(const Task& task, int64_t batch, int64_t kv_head, int64_t split);
  void (*sum_parts)(const Task& task, int64_t batch, int64_t head);  // to grad_q
};

// Null where the build or the processor lacks the instructions.
const Kernel* avx512_kernel();
const Kernel* avx2_kernel();
const Kernel& portable_kernel();

void forward_in_double(const Task& task);
void backward_in_double(const Task& task);

}  // namespace monograph::runtime::attention
