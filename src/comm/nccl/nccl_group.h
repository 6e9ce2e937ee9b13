#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "comm/nccl/gpu_progress.h"
#include "comm/nccl/gpu_world.h"
#include "comm/nccl/nccl_api.h"

namespace monograph::comm {

// A group over one communicator of NCCL, which is made and used without blocking: whatever NCCL
// waits for, this rank can give up.
class NcclGroup : public GpuGroup {
 public:
  // Throws the job's first failure, which it makes of the trouble unless there is one.
  using Fail = std::function<void(const Group&, const Call&, const Trouble&)>;

  // Collective: `prefix` is of this group's keys in the store.
  NcclGroup(const NcclApi& api, Group group, Job job, const device::cuda::ContextPtr& context,
            Store& store, const std::string& prefix, Fail fail);
  ~NcclGroup() override;

  int size() const override { return group_.size(); }
  void enqueue(const Call& call, CUdeviceptr from, CUdeviceptr to,
               const device::cuda::Stream& stream) override;
  void expect(std::shared_ptr<const std::vector<Call>> calls) override;

  // Of the thread that watches: notes how far the GPU is, and fails if it does not get on.
  void observe(Clock::time_point now);
  // Whether a collective has begun and not ended.
  bool is_waiting() const;
  // The job has failed elsewhere: fails in the words of what this group was at last.
  void fail_too();
  // Ends what runs on the GPU. Returns when no graph has collectives of this group any more.
  void abort();
  // Once nothing runs; waits for the other ranks to do the same.
  void finish();

 private:
  struct Expected {
    int64_t first;  // sequence number of the first call
    std::shared_ptr<const std::vector<Call>> calls;
  };
  struct Begun {
    int64_t sequence;
    int64_t number;  // in the recorder
  };

  ncclUniqueId share_id(Store& store, const std::string& prefix);
  void initialize(const ncclUniqueId& id);
  ncclResult_t launch(const Call& call, const void* from, void* to, CUstream stream) const;
  // Until NCCL has done what it was asked for.
  void await(ncclResult_t result, const Call& call);
  ncclResult_t async_state();
  Trouble trouble_of(ncclResult_t result) const;
  void note_progress(int64_t num_begun, int64_t num_ended);
  Call call_of(int64_t sequence) const;

  const NcclApi& api_;
  const Group group_;
  const Job job_;
  const Fail fail_;
  const GpuProgress progress_;
  std::mutex mutex_;                   // of communicator_, and of each call of NCCL with it
  ncclComm_t communicator_ = nullptr;  // null once it is aborted

  mutable std::mutex expected_mutex_;
  std::deque<Expected> expected_;
  int64_t num_expected_ = 0;

  // Of the watching thread alone.
  std::deque<Begun> begun_;  // not yet ended
  int64_t num_begun_ = 0, num_ended_ = 0;
  Clock::time_point moved_ = Clock::now(), well_ = Clock::now();
};

}  // namespace monograph::comm
