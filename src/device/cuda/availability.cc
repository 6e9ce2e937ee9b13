#include "device/cuda/availability.h"

#include "base/error.h"
#include "device/cuda/driver.h"

namespace monograph::device::cuda {

std::string why_no_gpu() {
  try {
    driver();
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

}  // namespace monograph::device::cuda
