#pragma once

#include <nccl.h>

#include <string>

namespace monograph::comm {

#define MONOGRAPH_NCCL_FUNCTIONS(X) \
  X(ncclGetVersion)                 \
  X(ncclGetUniqueId)                \
  X(ncclCommInitRankConfig)         \
  X(ncclCommFinalize)               \
  X(ncclCommDestroy)                \
  X(ncclCommAbort)                  \
  X(ncclCommGetAsyncError)          \
  X(ncclGetErrorString)             \
  X(ncclGetLastError)               \
  X(ncclAllReduce)                  \
  X(ncclBroadcast)                  \
  X(ncclAllGather)                  \
  X(ncclReduceScatter)

// The functions of NCCL that we call, opened at run time: nothing links to it. Tests fill the table
// with functions of their own.
struct NcclApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration
#define MONOGRAPH_NCCL_MEMBER(name) decltype(&::name) name = nullptr;
  MONOGRAPH_NCCL_FUNCTIONS(MONOGRAPH_NCCL_MEMBER)
#undef MONOGRAPH_NCCL_MEMBER
};

// The machine's NCCL, opened when first asked for. UserError that says where it was looked for.
const NcclApi& nccl();

// "2.28.9"
std::string version_of(const NcclApi& api);

}  // namespace monograph::comm
