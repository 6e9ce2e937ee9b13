#pragma once

#include <memory>
#include <string>

#include "device/cuda/driver.h"

namespace monograph::device::cuda {

struct Properties {
  std::string name;
  int major = 0, minor = 0;  // compute capability: 9, 0
  int num_multiprocessors = 0;
  int64_t shared_bytes_per_block = 0;  // the most that a kernel may ask for
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;
  std::string uuid;  // of this GPU among all of the world: "4f0c..."

  std::string architecture() const;  // "sm_90"
};

struct MemoryInfo {
  int64_t free_bytes = 0, total_bytes = 0;
};

// The primary context of one GPU, which cuBLASLt and cuDNN use as well. Held as long as anything
// of it lives.
class Context {
 public:
  // Makes it current on the calling thread. UserError when there is no GPU of that number.
  static std::shared_ptr<const Context> create(int ordinal = 0, const Driver& api = driver());
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Driver& api() const { return api_; }
  const Properties& properties() const { return properties_; }
  void make_current() const;  // on the calling thread
  MemoryInfo memory() const;
  void synchronize() const;  // waits for all work on the GPU; reports an error of it
  void check(CUresult result, std::string_view call) const { check_call(api_, result, call); }

 private:
  Context(int ordinal, const Driver& api);
  int attribute(CUdevice_attribute attribute) const;

  const Driver& api_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  Properties properties_;
};

}  // namespace monograph::device::cuda
