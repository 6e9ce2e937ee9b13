#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/cuda/stream.h"
#include "ir/program/program.h"
#include "runtime/cuda/builtin_kernels.h"
#include "runtime/cuda/cublas_lt.h"

namespace monograph::runtime {

// What all products of an executor share.
struct CudaGemmShared {
  CudaGemmShared(const device::cuda::ContextPtr& context, const BuiltinKernels& kernels);
  ~CudaGemmShared();
  CudaGemmShared(const CudaGemmShared&) = delete;
  CudaGemmShared& operator=(const CudaGemmShared&) = delete;

  static constexpr int64_t kWorkspaceBytes = int64_t{64} << 20;
  cublasLtHandle_t handle = nullptr;
  device::cuda::ContextPtr context;
  device::cuda::DeviceMemory workspace;  // products of one stream follow each other
  const BuiltinKernels& kernels;
};

struct GemmAddresses {
  CUdeviceptr a = 0, b = 0, c = 0, bias = 0;
};

// A matrix product bound to its addresses, by cuBLASLt. The algorithm is the first of its
// heuristics; search() chooses the fastest of the first few.
class CudaGemm {
 public:
  // `allows_tf32`: f32 products may round their operands to 10 bits of mantissa.
  CudaGemm(const ir::GemmStep& step, const GemmAddresses& at, const CudaGemmShared& shared,
           bool allows_tf32);
  ~CudaGemm();
  CudaGemm(CudaGemm&&) noexcept;

  void run(const device::cuda::Stream& stream) const;
  // Times the first `num_candidates` algorithms, each writing the result; waits for the stream.
  void search(const device::cuda::Stream& stream, int num_candidates);
  // Equal for products that an algorithm serves alike.
  const std::string& signature() const;
  void use_algorithm_of(const CudaGemm& other);

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace monograph::runtime
