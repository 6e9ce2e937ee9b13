#pragma once

#include <cstdint>
#include <string>

namespace monograph::ir {

// What code is compiled for. Compiling needs no such device: a described one will do.
struct DeviceSpec {
  enum class Kind : uint8_t { kCpu, kCuda };

  Kind kind = Kind::kCpu;
  std::string name = "cpu";
  std::string architecture = {};  // of a GPU: "sm_90"
  // The rest is of GPUs only; 0 on CPUs, whose kernels do not depend on such numbers.
  int num_multiprocessors = 0;
  int64_t shared_bytes_per_block = 0;  // the most a block may ask for
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;
  double copy_bandwidth = 0;  // bytes/s of a large copy, bytes read plus bytes written

  bool is_cuda() const { return kind == Kind::kCuda; }

  static DeviceSpec cpu();
  static DeviceSpec h200();
  // "cpu", "h200". UserError that lists the names for any other.
  static DeviceSpec named(const std::string& name);
};

}  // namespace monograph::ir
