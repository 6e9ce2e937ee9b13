#include "ir/device_spec.h"

#include "base/error.h"

namespace monograph::ir {

DeviceSpec DeviceSpec::cpu() {
  return {};
}

// The SXM part. Bandwidth as measured by a copy within the card, of 4.8 TB/s in the data sheet.
DeviceSpec DeviceSpec::h200() {
  return {.kind = Kind::kCuda,
          .name = "h200",
          .architecture = "sm_90",
          .num_multiprocessors = 132,
          .shared_bytes_per_block = 232448,
          .l2_bytes = int64_t{60} << 20,
          .memory_bytes = int64_t{143771} << 20,
          .copy_bandwidth = 4.26e12};
}

DeviceSpec DeviceSpec::named(const std::string& name) {
  for (const DeviceSpec& known : {cpu(), h200()}) {
    if (known.name == name) return known;
  }
  throw_user_error("no description of a device '{}': use cpu or h200", name);
}

}  // namespace monograph::ir
