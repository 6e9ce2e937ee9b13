#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/element_type.h"
#include "comm/nccl/nccl_api.h"
#include "device/cuda/fake_driver.h"

// For tests: NCCL between threads of this process, each with the fake GPU of fake_driver.h. As the
// real one without blocking, a call returns at once and its work is done beside it; recorded into
// a graph, it is done at each launch of it. An abort ends what waits for other ranks.
namespace monograph::comm {

struct FakeCommunicator;

// The ranks of one id.
struct FakeClique {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<FakeCommunicator*> ranks;
  int num_arrived = 0;
  int64_t round = 0;
  std::vector<std::pair<const char*, char*>> buffers;  // from, to of each rank
};

struct FakeCommunicator {
  std::shared_ptr<FakeClique> clique;
  int rank = 0;
  std::atomic<ncclResult_t> state{ncclInProgress};
  std::atomic<bool> is_aborted = false;
  std::thread worker;
};

// What happens in the process, for tests to see and to change.
struct FakeNccl {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<FakeClique>> cliques;  // by id
  std::atomic<int> num_ids = 0, num_aborted = 0, num_destroyed = 0;
  std::atomic<ncclResult_t> result_of_init{ncclSuccess};
  std::atomic<int> rank_with_error = -1;  // whose asynchronous state is an error
};

inline FakeNccl& fake_nccl() {
  static FakeNccl nccl;
  return nccl;
}

inline FakeCommunicator& fake(ncclComm_t communicator) {
  return *reinterpret_cast<FakeCommunicator*>(communicator);
}

// Until all ranks are here, or this one is aborted: then false.
inline bool meet(FakeCommunicator& self) {
  FakeClique& clique = *self.clique;
  std::unique_lock lock(clique.mutex);
  const int64_t round = clique.round;
  if (++clique.num_arrived == static_cast<int>(clique.ranks.size())) {
    clique.num_arrived = 0;
    ++clique.round;
    clique.changed.notify_all();
  }
  clique.changed.wait(lock, [&] { return clique.round != round || self.is_aborted; });
  return clique.round != round;
}

// Element types of NCCL in the order of its numbers.
inline ElementType element_type(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return ElementType::kF32;
    case ncclFloat64:
      return ElementType::kF64;
    case ncclBfloat16:
      return ElementType::kBF16;
    case ncclFloat16:
      return ElementType::kF16;
    case ncclInt32:
      return ElementType::kI32;
    case ncclInt64:
      return ElementType::kI64;
    default:
      return ElementType::kU8;
  }
}

// Shows this rank's buffers to the others, lets `work` make the result from all of them, and writes
// it once all have read.
using FakeWork = std::function<std::vector<char>(const std::vector<const char*>& from)>;
inline void exchange(FakeCommunicator& self, const void* from, void* to, const FakeWork& work) {
  FakeClique& clique = *self.clique;
  {
    const std::scoped_lock lock(clique.mutex);
    clique.buffers[static_cast<size_t>(self.rank)] = {static_cast<const char*>(from),
                                                      static_cast<char*>(to)};
  }
  if (!meet(self)) return;
  std::vector<const char*> all;
  for (const auto& [source, target] : clique.buffers) all.push_back(source);
  const std::vector<char> result = work(all);
  if (!meet(self)) return;
  std::memcpy(to, result.data(), result.size());
  meet(self);
}

inline ncclResult_t give(ncclComm_t communicator, const void* from, void* to, FakeWork work) {
  FakeCommunicator& self = fake(communicator);
  const auto run = [&self, from, to, work = std::move(work)] { exchange(self, from, to, work); };
  if (device::cuda::fake_gpu().is_recording) {
    device::cuda::fake_gpu().recorded.emplace_back(run);
    return ncclSuccess;
  }
  if (self.worker.joinable()) self.worker.join();
  self.state = ncclInProgress;
  self.worker = std::thread([&self, run] {
    run();
    self.state = self.is_aborted ? ncclInternalError : ncclSuccess;
  });
  return ncclInProgress;
}

inline std::vector<char> reduced(const std::vector<const char*>& from, int64_t begin, int64_t count,
                                 ncclDataType_t type, ncclRedOp_t op) {
  const ElementType element = element_type(type);
  const ReduceOp reduce = op == ncclSum   ? ReduceOp::kSum
                          : op == ncclMax ? ReduceOp::kMax
                                          : ReduceOp::kMin;
  const int64_t offset = begin * bytes_of(element), num_bytes = count * bytes_of(element);
  std::vector<char> result(from[0] + offset, from[0] + offset + num_bytes);
  for (size_t rank = 1; rank < from.size(); ++rank) {
    reduce_into(result.data(), from[rank] + offset, count, element, reduce);
  }
  return result;
}

inline void add_groups(NcclApi& api) {
  api.ncclGetVersion = [](int* version) {
    *version = 22809;
    return ncclSuccess;
  };
  api.ncclGetErrorString = [](ncclResult_t) { return "an error as planned"; };
  api.ncclGetLastError = [](ncclComm_t) { return "of the fake"; };
  api.ncclGetUniqueId = [](ncclUniqueId* id) {
    *id = {};
    // With zeros inside, as a real one has.
    const std::string text = "id\0" + std::to_string(++fake_nccl().num_ids);
    std::memcpy(id->internal + 3, text.data(), text.size());
    return ncclSuccess;
  };
  api.ncclCommInitRankConfig = [](ncclComm_t* communicator, int num_ranks, ncclUniqueId id,
                                  int rank, ncclConfig_t* config) {
    if (config->blocking != 0) return ncclInvalidArgument;
    auto* const made = new FakeCommunicator;
    *communicator = reinterpret_cast<ncclComm_t>(made);
    const std::scoped_lock lock(fake_nccl().mutex);
    auto& clique = fake_nccl().cliques[{id.internal, sizeof id.internal}];
    if (clique == nullptr) {
      clique = std::make_shared<FakeClique>();
      clique->ranks.resize(static_cast<size_t>(num_ranks));
      clique->buffers.resize(static_cast<size_t>(num_ranks));
    }
    made->clique = clique;
    made->rank = rank;
    clique->ranks[static_cast<size_t>(rank)] = made;
    made->worker = std::thread([made] {
      const bool has_met = meet(*made);
      made->state = has_met ? fake_nccl().result_of_init.load() : ncclInternalError;
    });
    return ncclInProgress;
  };
}

inline void add_endings(NcclApi& api) {
  api.ncclCommGetAsyncError = [](ncclComm_t communicator, ncclResult_t* state) {
    *state = fake(communicator).rank == fake_nccl().rank_with_error
                 ? ncclRemoteError
                 : fake(communicator).state.load();
    return ncclSuccess;
  };
  api.ncclCommFinalize = [](ncclComm_t communicator) {
    FakeCommunicator& self = fake(communicator);
    if (self.worker.joinable()) self.worker.join();
    self.state = ncclInProgress;
    self.worker =
        std::thread([&self] { self.state = meet(self) ? ncclSuccess : ncclInternalError; });
    return ncclInProgress;
  };
  api.ncclCommDestroy = [](ncclComm_t communicator) {
    FakeCommunicator& self = fake(communicator);
    if (self.worker.joinable()) self.worker.join();
    delete &self;
    ++fake_nccl().num_destroyed;
    return ncclSuccess;
  };
  // A launch of a graph may still be on its way out: the memory stays.
  api.ncclCommAbort = [](ncclComm_t communicator) {
    FakeCommunicator& self = fake(communicator);
    {
      const std::scoped_lock lock(self.clique->mutex);
      self.is_aborted = true;
    }
    self.clique->changed.notify_all();
    if (self.worker.joinable()) self.worker.join();
    ++fake_nccl().num_aborted;
    return ncclSuccess;
  };
}

inline void add_collectives(NcclApi& api) {
  api.ncclAllReduce = [](const void* from, void* to, size_t count, ncclDataType_t type,
                         ncclRedOp_t op, ncclComm_t communicator, cudaStream_t) {
    return give(communicator, from, to, [=](const auto& all) {
      return reduced(all, 0, static_cast<int64_t>(count), type, op);
    });
  };
  api.ncclReduceScatter = [](const void* from, void* to, size_t count, ncclDataType_t type,
                             ncclRedOp_t op, ncclComm_t communicator, cudaStream_t) {
    const int64_t begin = fake(communicator).rank * static_cast<int64_t>(count);
    return give(communicator, from, to, [=](const auto& all) {
      return reduced(all, begin, static_cast<int64_t>(count), type, op);
    });
  };
  api.ncclBroadcast = [](const void* from, void* to, size_t count, ncclDataType_t type, int root,
                         ncclComm_t communicator, cudaStream_t) {
    const int64_t num_bytes = static_cast<int64_t>(count) * bytes_of(element_type(type));
    return give(communicator, from, to, [=](const auto& all) {
      const char* const source = all[static_cast<size_t>(root)];
      return std::vector<char>(source, source + num_bytes);
    });
  };
  api.ncclAllGather = [](const void* from, void* to, size_t count, ncclDataType_t type,
                         ncclComm_t communicator, cudaStream_t) {
    const int64_t num_bytes = static_cast<int64_t>(count) * bytes_of(element_type(type));
    return give(communicator, from, to, [=](const auto& all) {
      std::vector<char> result;
      for (const char* source : all) result.insert(result.end(), source, source + num_bytes);
      return result;
    });
  };
}

inline NcclApi fake_nccl_api() {
  NcclApi api;
  add_groups(api);
  add_endings(api);
  add_collectives(api);
  return api;
}

// A thread's GPU that NCCL can run on. Kernels: the one that counts collectives.
inline device::cuda::Driver fake_nccl_driver(int rank) {
  device::cuda::Driver driver = device::cuda::fake_driver();
  device::cuda::fake_gpu().uuid = rank + 1;
  device::cuda::fake_gpu().free_bytes = device::cuda::fake_gpu().total_bytes = 1 << 20;
  device::cuda::fake_gpu().kernels["monograph_count"] = [](void** arguments) {
    auto* const count = static_cast<int64_t*>(arguments[0]);
    auto* const seen = static_cast<int64_t*>(arguments[1]);
    std::atomic_ref<int64_t>(*seen).store(++*count);
  };
  return driver;
}

}  // namespace monograph::comm
