#include "runtime/cpu/gemm_bf16.h"

#include <dnnl.hpp>
#include <unordered_map>

#include "base/error.h"

namespace monograph::runtime {
namespace {

dnnl::memory::data_type data_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kBF16:
      return dnnl::memory::data_type::bf16;
    case ir::DType::kF32:
      return dnnl::memory::data_type::f32;
    default:
      throw_internal_error("gemm of bf16 with a tensor of {}", ir::dtype_name(dtype));
  }
}

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// A matrix of the batch: a batch axis that is not stepped over has one element (broadcast).
dnnl::memory::desc matrix(const ir::GemmStep& step, const std::vector<int64_t>& batch_strides,
                          int64_t rows, int64_t columns, bool transposed, int64_t leading,
                          ir::DType dtype) {
  dnnl::memory::dims dims, strides;
  for (size_t axis = 0; axis < step.batch.size(); ++axis) {
    const bool is_shared = batch_strides[axis] == 0;
    dims.push_back(is_shared ? 1 : step.batch[axis]);
    strides.push_back(is_shared ? 1 : batch_strides[axis]);
  }
  dims.insert(dims.end(), {rows, columns});
  strides.insert(strides.end(), {transposed ? 1 : leading, transposed ? leading : 1});
  return {dims, data_type(dtype), strides};
}

}  // namespace

bool is_bf16_fast() {
#ifdef __x86_64__
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  constexpr auto kAmx = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
  if ((isa & kAmx) == kAmx) return true;
  const bool has_slow_ones = __builtin_cpu_is("intel") && __builtin_cpu_supports("avx512fp16");
  return __builtin_cpu_supports("avx512bf16") && !has_slow_ones;
#else
  return true;
#endif
}

struct GemmBF16::Primitive {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul matmul;
  mutable dnnl::stream stream;
  std::unordered_map<int, dnnl::memory> arguments;
};

GemmBF16::GemmBF16(const ir::GemmStep& step, void* a, void* b, void* c, void* bias) {
  try {
    const auto desc_a =
        matrix(step, step.batch_strides_a, step.m, step.k, step.transpose_a, step.lda, step.dtype);
    const auto desc_b =
        matrix(step, step.batch_strides_b, step.k, step.n, step.transpose_b, step.ldb, step.dtype);
    const auto desc_c =
        matrix(step, step.batch_strides_c, step.m, step.n, false, step.ldc, step.result_dtype);
    dnnl::memory::desc desc_bias;
    if (bias != nullptr) {
      dnnl::memory::dims dims(step.batch.size() + 2, 1);
      dims[dims.size() - (step.bias_along_rows ? 2 : 1)] = step.bias_along_rows ? step.m : step.n;
      const dnnl::memory::dims strides(dims.size(), 1);
      desc_bias = {dims, data_type(step.bias_dtype), strides};
    }
    const dnnl::matmul::desc operation =
        bias == nullptr ? dnnl::matmul::desc(desc_a, desc_b, desc_c)
                        : dnnl::matmul::desc(desc_a, desc_b, desc_bias, desc_c);
    dnnl::primitive_attr attributes;
    if (step.accumulates) {
      dnnl::post_ops added;
      added.append_sum(1.0f);
      attributes.set_post_ops(added);
    }
    dnnl::matmul::primitive_desc description(operation, attributes, cpu_engine());
    dnnl::matmul matmul(description);
    primitive_ = std::make_shared<Primitive>(
        Primitive{std::move(description), std::move(matmul), dnnl::stream(cpu_engine()), {}});
    auto& arguments = primitive_->arguments;
    arguments.emplace(DNNL_ARG_SRC, dnnl::memory(desc_a, cpu_engine(), a));
    arguments.emplace(DNNL_ARG_WEIGHTS, dnnl::memory(desc_b, cpu_engine(), b));
    arguments.emplace(DNNL_ARG_DST, dnnl::memory(desc_c, cpu_engine(), c));
    if (bias != nullptr) {
      arguments.emplace(DNNL_ARG_BIAS, dnnl::memory(desc_bias, cpu_engine(), bias));
    }
  } catch (const dnnl::error& error) {
    throw_internal_error("oneDNN refuses the bf16 product {}x{}x{} lda {} ldb {} ldc {}: {}",
                         step.m, step.n, step.k, step.lda, step.ldb, step.ldc, error.what());
  }
}

void GemmBF16::run() const {
  primitive_->matmul.execute(primitive_->stream, primitive_->arguments);
  primitive_->stream.wait();
}

const char* GemmBF16::implementation() const {
  return primitive_->description.impl_info_str();
}

}  // namespace monograph::runtime
