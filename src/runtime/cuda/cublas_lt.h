#pragma once

#include <cublasLt.h>

#include <string>
#include <string_view>

#include "base/dynamic_library.h"

namespace monograph::runtime {

// cuBLASLt, opened at run time.
struct CublasLt {
  DynamicLibrary library{"matrix products on GPUs are done by cuBLASLt",
                         cuda_library_candidates({"libcublasLt.so.13", "libcublasLt.so.12"}),
                         "install cuBLAS, or add its folder to LD_LIBRARY_PATH"};
// NOLINTBEGIN(bugprone-macro-parentheses): declarations
#define MONOGRAPH_CUBLAS_LT(name) \
  decltype(&::name) name = library.function<decltype(::name)>(#name);
  MONOGRAPH_CUBLAS_LT(cublasLtCreate)
  MONOGRAPH_CUBLAS_LT(cublasLtDestroy)
  MONOGRAPH_CUBLAS_LT(cublasLtGetVersion)
  MONOGRAPH_CUBLAS_LT(cublasLtGetStatusString)
  MONOGRAPH_CUBLAS_LT(cublasLtMatmul)
  MONOGRAPH_CUBLAS_LT(cublasLtMatmulAlgoGetHeuristic)
  MONOGRAPH_CUBLAS_LT(cublasLtMatmulDescCreate)
  MONOGRAPH_CUBLAS_LT(cublasLtMatmulDescDestroy)
  MONOGRAPH_CUBLAS_LT(cublasLtMatmulDescSetAttribute)
  MONOGRAPH_CUBLAS_LT(cublasLtMatrixLayoutCreate)
  MONOGRAPH_CUBLAS_LT(cublasLtMatrixLayoutDestroy)
  MONOGRAPH_CUBLAS_LT(cublasLtMatrixLayoutSetAttribute)
  MONOGRAPH_CUBLAS_LT(cublasLtMatmulPreferenceCreate)
  MONOGRAPH_CUBLAS_LT(cublasLtMatmulPreferenceDestroy)
  MONOGRAPH_CUBLAS_LT(cublasLtMatmulPreferenceSetAttribute)
#undef MONOGRAPH_CUBLAS_LT
  // NOLINTEND(bugprone-macro-parentheses)

  // UserError that names the call and the status.
  void check(cublasStatus_t status, std::string_view call) const;
};

// The machine's, opened when first asked for. UserError when there is none.
const CublasLt& cublas_lt();

}  // namespace monograph::runtime
