#include "device/cuda/context.h"

#include "base/error.h"

namespace monograph::device::cuda {

namespace {

std::string hex(const CUuuid& uuid) {
  std::string text;
  for (const char byte : uuid.bytes) text += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return text;
}

}  // namespace

std::string Properties::architecture() const {
  return fmt::format("sm_{}{}", major, minor);
}

std::shared_ptr<const Context> Context::create(int ordinal, const Driver& api) {
  return std::shared_ptr<const Context>(new Context(ordinal, api));
}

Context::Context(int ordinal, const Driver& api) : api_(api) {
  int count = 0;
  check(api_.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count) {
    throw_user_error("there is no GPU {}: this process sees {}, numbered from 0", ordinal, count);
  }
  check(api_.cuDeviceGet(&device_, ordinal), "cuDeviceGet");
  char name[256] = {};
  check(api_.cuDeviceGetName(name, sizeof(name), device_), "cuDeviceGetName");
  CUuuid uuid = {};
  check(api_.cuDeviceGetUuid(&uuid, device_), "cuDeviceGetUuid");
  size_t total = 0;
  check(api_.cuDeviceTotalMem(&total, device_), "cuDeviceTotalMem");
  properties_ = {
      .name = name,
      .major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
      .minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
      .num_multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
      .shared_bytes_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
      .l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
      .memory_bytes = static_cast<int64_t>(total),
      .uuid = hex(uuid)};
  check(api_.cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
  make_current();
}

Context::~Context() {
  if (context_ != nullptr) api_.cuDevicePrimaryCtxRelease(device_);
}

int Context::attribute(CUdevice_attribute attribute) const {
  int value = 0;
  check(api_.cuDeviceGetAttribute(&value, attribute, device_), "cuDeviceGetAttribute");
  return value;
}

void Context::make_current() const {
  check(api_.cuCtxSetCurrent(context_), "cuCtxSetCurrent");
}

MemoryInfo Context::memory() const {
  size_t free = 0, total = 0;
  check(api_.cuMemGetInfo(&free, &total), "cuMemGetInfo");
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

void Context::synchronize() const {
  check(api_.cuCtxSynchronize(), "cuCtxSynchronize");
}

}  // namespace monograph::device::cuda
