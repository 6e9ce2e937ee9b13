#include "runtime/cuda/cublas_lt.h"

#include "base/error.h"

namespace monograph::runtime {

void CublasLt::check(cublasStatus_t status, std::string_view call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw_user_error("{} gave {} (cuBLASLt {} from {}): see that this library fits the driver", call,
                   cublasLtGetStatusString(status), cublasLtGetVersion(), library.path());
}

const CublasLt& cublas_lt() {
  static const CublasLt* const loaded = new CublasLt;  // never closed: exit handlers still run
  return *loaded;
}

}  // namespace monograph::runtime
