#include "comm/nccl/nccl_api.h"

#include <fmt/format.h>

#include "base/dynamic_library.h"

namespace monograph::comm {
namespace {

struct Loaded {
  DynamicLibrary library{"collectives between GPUs are done by NCCL",
                         cuda_library_candidates({"libnccl.so.2"}),
                         "install NCCL 2, or add its folder to LD_LIBRARY_PATH"};
  NcclApi api;
  Loaded() {
#define MONOGRAPH_NCCL_FILL(name) api.name = library.function<decltype(::name)>(#name);
    MONOGRAPH_NCCL_FUNCTIONS(MONOGRAPH_NCCL_FILL)
#undef MONOGRAPH_NCCL_FILL
  }
};

}  // namespace

const NcclApi& nccl() {
  static const Loaded* const loaded = new Loaded;  // never closed: exit handlers still run
  return loaded->api;
}

std::string version_of(const NcclApi& api) {
  int code = 0;
  api.ncclGetVersion(&code);
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

}  // namespace monograph::comm
