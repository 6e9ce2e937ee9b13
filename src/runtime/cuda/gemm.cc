#include "runtime/cuda/gemm.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

// cuBLASLt thinks in columns: a row-major c = op(a) op(b) is the column-major c^T = op(b)^T
// op(a)^T, with the same memory and leading dimensions. Below, "left" is our b, "right" our a.
namespace monograph::runtime {
namespace {

using device::cuda::Event;
using device::cuda::Stream;

cudaDataType_t data_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kF32:
      return CUDA_R_32F;
    case ir::DType::kF64:
      return CUDA_R_64F;
    case ir::DType::kBF16:
      return CUDA_R_16BF;
    default:
      throw_internal_error("a matrix product of {} on a GPU", ir::dtype_name(dtype));
  }
}

// Matrices that lie at one distance from each other, one axis of a batch; the other axes are
// stepped through by launches.
struct Batch {
  int64_t count = 1, stride_a = 0, stride_b = 0, stride_c = 0;
};

struct BatchAxes {
  Batch inner;
  std::vector<Batch> outer;
};

BatchAxes split_batch(const ir::GemmStep& step) {
  std::vector<Batch> axes;
  for (size_t d = 0; d < step.batch.size(); ++d) {
    if (step.batch[d] == 1) continue;
    const Batch axis{step.batch[d], step.batch_strides_a[d], step.batch_strides_b[d],
                     step.batch_strides_c[d]};
    const auto merges = [&](int64_t Batch::*stride) {
      return axes.back().*stride == axis.*stride * axis.count;
    };
    if (!axes.empty() && merges(&Batch::stride_a) && merges(&Batch::stride_b) &&
        merges(&Batch::stride_c)) {
      axes.back() = {axes.back().count * axis.count, axis.stride_a, axis.stride_b, axis.stride_c};
    } else {
      axes.push_back(axis);
    }
  }
  BatchAxes result;
  if (axes.empty()) return result;
  // The longest axis in one launch.
  const auto longest = std::max_element(
      axes.begin(), axes.end(), [](const Batch& x, const Batch& y) { return x.count < y.count; });
  result.inner = *longest;
  axes.erase(longest);
  result.outer = std::move(axes);
  return result;
}

uint32_t alignment_of(CUdeviceptr address) {
  return static_cast<uint32_t>(std::min<CUdeviceptr>(address & -address, 256));
}

}  // namespace

CudaGemmShared::CudaGemmShared(const device::cuda::ContextPtr& context,
                               const BuiltinKernels& kernels)
    : context(context), workspace(context, kWorkspaceBytes), kernels(kernels) {
  cublas_lt().check(cublas_lt().cublasLtCreate(&handle), "cublasLtCreate");
}

CudaGemmShared::~CudaGemmShared() {
  if (handle != nullptr) cublas_lt().cublasLtDestroy(handle);
}

struct CudaGemm::Plan {
  Plan(const ir::GemmStep& step, const GemmAddresses& at, const CudaGemmShared& shared,
       bool allows_tf32);
  ~Plan();

  void describe(bool allows_tf32);
  void set_bias();
  cublasLtMatrixLayout_t layout(ir::DType dtype, int64_t rows, int64_t columns, int64_t leading,
                                int64_t stride) const;
  std::vector<cublasLtMatmulHeuristicResult_t> candidates(int count) const;
  void launch(const Stream& stream, const cublasLtMatmulAlgo_t& algorithm) const;
  void launch_at(const Stream& stream, const cublasLtMatmulAlgo_t& algorithm, int64_t offset_a,
                 int64_t offset_b, int64_t offset_c) const;
  double ms_of(const Stream& stream, const cublasLtMatmulAlgo_t& algorithm) const;
  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
    api.check(api.cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
              "cublasLtMatmulDescSetAttribute");
  }

  const CublasLt& api = cublas_lt();
  const ir::GemmStep step;
  const GemmAddresses at;
  const CudaGemmShared& shared;
  BatchAxes batch;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, result = nullptr;
  // Where the epilogue cannot read the bias as it is: a copy of the result's dtype is made before
  // the product, or the result is filled with it and the product adds to that.
  enum class Bias { kNone, kEpilogue, kCopied, kFilled } bias = Bias::kNone;
  device::cuda::DeviceMemory bias_copy;
  cublasLtMatmulAlgo_t algorithm = {};
  std::string signature;
};

CudaGemm::Plan::Plan(const ir::GemmStep& given, const GemmAddresses& addresses,
                     const CudaGemmShared& with, bool allows_tf32)
    : step(given), at(addresses), shared(with), batch(split_batch(given)) {
  describe(allows_tf32);
  const bool ta = step.transpose_a, tb = step.transpose_b;
  left = layout(step.dtype, tb ? step.k : step.n, tb ? step.n : step.k, step.ldb,
                batch.inner.stride_b);
  right = layout(step.dtype, ta ? step.m : step.k, ta ? step.k : step.m, step.lda,
                 batch.inner.stride_a);
  result = layout(step.result_dtype, step.n, step.m, step.ldc, batch.inner.stride_c);
  if (step.has_bias) set_bias();
  std::vector<cublasLtMatmulHeuristicResult_t> found = candidates(1);
  if (found.empty() && (bias == Bias::kEpilogue || bias == Bias::kCopied)) {
    bias = Bias::kFilled;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
    found = candidates(1);
  }
  signature = fmt::format("{}{}{} {}{} {}x{}x{} {},{},{} batch {} {},{},{} bias {} align {},{},{}",
                          ir::dtype_name(step.dtype), ir::dtype_name(step.result_dtype),
                          allows_tf32 ? " tf32" : "", ta ? 't' : 'n', tb ? 't' : 'n', step.m,
                          step.n, step.k, step.lda, step.ldb, step.ldc, batch.inner.count,
                          batch.inner.stride_a, batch.inner.stride_b, batch.inner.stride_c,
                          bias == Bias::kEpilogue || bias == Bias::kCopied, alignment_of(at.a),
                          alignment_of(at.b), alignment_of(at.c));
  check(bias != Bias::kFilled || !step.accumulates, "a product with a bias adds to its result");
  if (found.empty()) throw_user_error("cuBLASLt has no algorithm for the product {}", signature);
  algorithm = found[0].algo;
}

CudaGemm::Plan::~Plan() {
  for (cublasLtMatrixLayout_t each : {left, right, result}) {
    if (each != nullptr) api.cublasLtMatrixLayoutDestroy(each);
  }
  if (operation != nullptr) api.cublasLtMatmulDescDestroy(operation);
}

void CudaGemm::Plan::describe(bool allows_tf32) {
  const bool is_f64 = step.dtype == ir::DType::kF64;
  const cublasComputeType_t compute = is_f64 ? CUBLAS_COMPUTE_64F
                                      : step.dtype == ir::DType::kF32 && allows_tf32
                                          ? CUBLAS_COMPUTE_32F_FAST_TF32
                                          : CUBLAS_COMPUTE_32F;
  api.check(api.cublasLtMatmulDescCreate(&operation, compute, is_f64 ? CUDA_R_64F : CUDA_R_32F),
            "cublasLtMatmulDescCreate");
  set(CUBLASLT_MATMUL_DESC_TRANSA, step.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, step.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
}

void CudaGemm::Plan::set_bias() {
  const bool is_f64 = step.dtype == ir::DType::kF64;
  bias = step.bias_along_rows || is_f64         ? Bias::kFilled
         : step.bias_dtype == step.result_dtype ? Bias::kEpilogue
                                                : Bias::kCopied;
  if (bias == Bias::kFilled) return;
  CUdeviceptr address = at.bias;
  if (bias == Bias::kCopied) {
    bias_copy = {shared.context, step.n * ir::dtype_bytes(step.result_dtype)};
    address = bias_copy.address();
  }
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(data_type(step.result_dtype)));
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, address);
}

cublasLtMatrixLayout_t CudaGemm::Plan::layout(ir::DType dtype, int64_t rows, int64_t columns,
                                              int64_t leading, int64_t stride) const {
  cublasLtMatrixLayout_t layout = nullptr;
  api.check(api.cublasLtMatrixLayoutCreate(&layout, data_type(dtype), rows, columns, leading),
            "cublasLtMatrixLayoutCreate");
  const auto count = static_cast<int32_t>(batch.inner.count);
  if (count == 1) return layout;
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, auto value) {
    api.check(api.cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof(value)),
              "cublasLtMatrixLayoutSetAttribute");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  return layout;
}

std::vector<cublasLtMatmulHeuristicResult_t> CudaGemm::Plan::candidates(int count) const {
  cublasLtMatmulPreference_t preference = nullptr;
  api.check(api.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    api.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{CudaGemmShared::kWorkspaceBytes});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(at.b));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(at.a));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(at.c));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(at.c));
  std::vector<cublasLtMatmulHeuristicResult_t> found(count);
  int num_found = 0;
  const cublasStatus_t status =
      api.cublasLtMatmulAlgoGetHeuristic(shared.handle, operation, left, right, result, result,
                                         preference, count, found.data(), &num_found);
  api.cublasLtMatmulPreferenceDestroy(preference);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  api.check(status, "cublasLtMatmulAlgoGetHeuristic");
  found.resize(num_found);
  std::erase_if(found, [](const auto& each) { return each.state != CUBLAS_STATUS_SUCCESS; });
  return found;
}

void CudaGemm::Plan::launch_at(const Stream& stream, const cublasLtMatmulAlgo_t& chosen,
                               int64_t offset_a, int64_t offset_b, int64_t offset_c) const {
  const auto pointer = [](CUdeviceptr address, int64_t elements, ir::DType dtype) {
    return device::cuda::to_pointer(address + elements * ir::dtype_bytes(dtype));
  };
  const float one = 1, beta = bias == Bias::kFilled || step.accumulates ? 1 : 0;
  const double one_f64 = 1, beta_f64 = beta;
  const bool is_f64 = step.dtype == ir::DType::kF64;
  void* const c = pointer(at.c, offset_c, step.result_dtype);
  api.check(api.cublasLtMatmul(
                shared.handle, operation, is_f64 ? static_cast<const void*>(&one_f64) : &one,
                pointer(at.b, offset_b, step.dtype), left, pointer(at.a, offset_a, step.dtype),
                right, is_f64 ? static_cast<const void*>(&beta_f64) : &beta, c, result, c, result,
                &chosen, shared.workspace.data(), CudaGemmShared::kWorkspaceBytes,
                reinterpret_cast<cudaStream_t>(stream.handle())),
            "cublasLtMatmul of " + signature);
}

void CudaGemm::Plan::launch(const Stream& stream, const cublasLtMatmulAlgo_t& chosen) const {
  if (bias == Bias::kFilled) shared.kernels.fill_bias(stream, step, at.bias, at.c);
  if (bias == Bias::kCopied) {
    ir::GemmStep row = step;  // the bias as a result of one row
    row.m = 1, row.batch = {};
    shared.kernels.fill_bias(stream, row, at.bias, bias_copy.address());
  }
  int64_t num_launches = 1;
  for (const Batch& axis : batch.outer) num_launches *= axis.count;
  for (int64_t i = 0; i < num_launches; ++i) {
    int64_t rest = i, offset_a = 0, offset_b = 0, offset_c = 0;
    for (const Batch& axis : batch.outer) {
      const int64_t index = rest % axis.count;
      rest /= axis.count;
      offset_a += index * axis.stride_a;
      offset_b += index * axis.stride_b;
      offset_c += index * axis.stride_c;
    }
    launch_at(stream, chosen, offset_a, offset_b, offset_c);
  }
}

double CudaGemm::Plan::ms_of(const Stream& stream, const cublasLtMatmulAlgo_t& chosen) const {
  constexpr int kRuns = 2;
  const Event start(stream.context(), true), end(stream.context(), true);
  launch(stream, chosen);
  stream.record(start);
  for (int i = 0; i < kRuns; ++i) launch(stream, chosen);
  stream.record(end);
  end.synchronize();
  return end.ms_since(start) / kRuns;
}

CudaGemm::CudaGemm(const ir::GemmStep& step, const GemmAddresses& at, const CudaGemmShared& shared,
                   bool allows_tf32)
    : plan_(std::make_unique<Plan>(step, at, shared, allows_tf32)) {}
CudaGemm::~CudaGemm() = default;
CudaGemm::CudaGemm(CudaGemm&&) noexcept = default;

void CudaGemm::run(const Stream& stream) const {
  plan_->launch(stream, plan_->algorithm);
}

// Rounds over all candidates, and the best time of each: the GPU's clock wanders while it is
// searched.
void CudaGemm::search(const Stream& stream, int num_candidates) {
  constexpr int kRounds = 4;
  const std::vector<cublasLtMatmulHeuristicResult_t> found = plan_->candidates(num_candidates);
  std::vector<double> best_ms(found.size(), std::numeric_limits<double>::infinity());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < found.size(); ++i) {
      best_ms[i] = std::min(best_ms[i], plan_->ms_of(stream, found[i].algo));
    }
  }
  const auto best = std::min_element(best_ms.begin(), best_ms.end()) - best_ms.begin();
  plan_->algorithm = found[best].algo;
}

const std::string& CudaGemm::signature() const {
  return plan_->signature;
}

void CudaGemm::use_algorithm_of(const CudaGemm& other) {
  plan_->algorithm = other.plan_->algorithm;
}

}  // namespace monograph::runtime
