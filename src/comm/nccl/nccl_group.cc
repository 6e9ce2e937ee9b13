#include "comm/nccl/nccl_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace monograph::comm {
namespace {

constexpr std::chrono::microseconds kPoll{20};
// How long a collective may still take whose peer has left the job: the end of it may be under way.
constexpr std::chrono::seconds kAfterLeaving{1};
// Between an error and asking who is at fault: the other ranks' threads first note how far they
// are, or they seem to be behind.
constexpr Milliseconds kBeforeBlame{50};

ncclDataType_t nccl_type(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return ncclFloat32;
    case ElementType::kF64:
      return ncclFloat64;
    case ElementType::kBF16:
      return ncclBfloat16;
    case ElementType::kF16:
      return ncclFloat16;
    case ElementType::kI32:
      return ncclInt32;
    case ElementType::kI64:
      return ncclInt64;
    case ElementType::kU8:
      return ncclUint8;
  }
  return ncclUint8;
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kMin:
      return ncclMin;
  }
  return ncclSum;
}

// Call 0 of a group: it is made.
Call split_call() {
  return make_call(Operation::kBarrier, 0, ElementType::kU8, "split");
}

}  // namespace

NcclGroup::NcclGroup(const NcclApi& api, Group group, Job job,
                     const device::cuda::ContextPtr& context, Store& store,
                     const std::string& prefix, Fail fail)
    : api_(api),
      group_(std::move(group)),
      job_(std::move(job)),
      fail_(std::move(fail)),
      progress_(context) {
  job_.recorder->add_group(group_);
  const int64_t number = job_.recorder->begin(group_.name, split_call());
  context->make_current();  // NCCL takes the GPU of the thread
  const ncclUniqueId id = share_id(store, prefix);
  try {
    initialize(id);
  } catch (...) {
    abort();
    throw;
  }
  job_.recorder->finish(number);
}

NcclGroup::~NcclGroup() {
  abort();
}

ncclUniqueId NcclGroup::share_id(Store& store, const std::string& prefix) {
  ncclUniqueId id = {};
  try {
    if (group_.index == 0) {
      const ncclResult_t result = api_.ncclGetUniqueId(&id);
      if (result != ncclSuccess) fail_(group_, split_call(), trouble_of(result));
      store.set(prefix + "id", {id.internal, sizeof id.internal});
      return id;
    }
    const std::string text = store.get(prefix + "id", job_.timeout - grace_of(job_.timeout));
    check(text.size() == sizeof id.internal, "NCCL's id has {} bytes", text.size());
    std::memcpy(id.internal, text.data(), text.size());
  } catch (const CommError& error) {  // of the store
    fail_(group_, split_call(), {error.what(), {}});
  }
  return id;
}

void NcclGroup::initialize(const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclResult_t result = ncclSuccess;
  {
    const std::scoped_lock lock(mutex_);
    result = api_.ncclCommInitRankConfig(&communicator_, group_.size(), id, group_.index, &config);
  }
  await(result, split_call());
}

ncclResult_t NcclGroup::launch(const Call& call, const void* from, void* to,
                               CUstream stream) const {
  const auto count = static_cast<size_t>(call.count);
  const ncclDataType_t type = nccl_type(call.type);
  switch (call.operation) {
    case Operation::kAllReduce:
      return api_.ncclAllReduce(from, to, count, type, nccl_op(call.reduce), communicator_, stream);
    case Operation::kBroadcast:
      return api_.ncclBroadcast(from, to, count, type, call.peer, communicator_, stream);
    case Operation::kAllGather:
      return api_.ncclAllGather(from, to, count, type, communicator_, stream);
    case Operation::kReduceScatter:
      return api_.ncclReduceScatter(from, to, count, type, nccl_op(call.reduce), communicator_,
                                    stream);
    default:
      throw_internal_error("{} on a GPU", name_of(call.operation));
  }
}

void NcclGroup::enqueue(const Call& call, CUdeviceptr from, CUdeviceptr to,
                        const device::cuda::Stream& stream) {
  progress_.count_begun(stream);
  ncclResult_t result = ncclSystemError;
  {
    const std::scoped_lock lock(mutex_);
    if (communicator_ != nullptr) {
      result = launch(call, device::cuda::to_pointer(from), device::cuda::to_pointer(to),
                      stream.handle());
    }
  }
  Call queued = call;
  queued.sequence = progress_.num_begun();  // where the GPU is; the host may be ahead of it
  await(result, queued);
  progress_.count_ended(stream);
}

void NcclGroup::await(ncclResult_t result, const Call& call) {
  const auto deadline = Clock::now() + job_.timeout - grace_of(job_.timeout);
  while (result == ncclInProgress) {
    if (job_.watch->has_failed()) fail_(group_, call, {"the job failed", {}});
    if (Clock::now() > deadline) fail_(group_, call, {"the timeout passed", {}});
    std::this_thread::sleep_for(kPoll);
    result = async_state();
  }
  if (result == ncclSuccess) return;
  std::this_thread::sleep_for(kBeforeBlame);
  fail_(group_, call, trouble_of(result));
}

ncclResult_t NcclGroup::async_state() {
  const std::scoped_lock lock(mutex_);
  if (communicator_ == nullptr) return ncclSystemError;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = api_.ncclCommGetAsyncError(communicator_, &state);
  return asked == ncclSuccess ? state : asked;
}

Trouble NcclGroup::trouble_of(ncclResult_t result) const {
  const char* const last = api_.ncclGetLastError(nullptr);
  const std::string detail = last == nullptr || *last == '\0' ? "" : fmt::format(": {}", last);
  // An error of the connection means that a rank is going: it may be about to say why.
  const bool is_broken = result == ncclRemoteError || result == ncclSystemError;
  return {fmt::format("NCCL {}: {}{}", version_of(api_), api_.ncclGetErrorString(result), detail),
          {},
          false,
          is_broken};
}

void NcclGroup::expect(std::shared_ptr<const std::vector<Call>> calls) {
  const std::scoped_lock lock(expected_mutex_);
  // What ended long ago needs no name any more.
  const int64_t needed = progress_.num_ended() - static_cast<int64_t>(FlightRecorder::kCapacity);
  while (expected_.size() > 1 && expected_[1].first <= needed) expected_.pop_front();
  const auto count = static_cast<int64_t>(calls->size());
  expected_.push_back({num_expected_ + 1, std::move(calls)});
  num_expected_ += count;
}

Call NcclGroup::call_of(int64_t sequence) const {
  const std::scoped_lock lock(expected_mutex_);
  Call call = split_call();
  for (const Expected& each : expected_) {
    const int64_t index = sequence - each.first;
    if (index >= 0 && index < static_cast<int64_t>(each.calls->size())) {
      call = (*each.calls)[static_cast<size_t>(index)];
    }
  }
  call.sequence = sequence;
  return call;
}

void NcclGroup::note_progress(int64_t num_begun, int64_t num_ended) {
  const auto capacity = static_cast<int64_t>(FlightRecorder::kCapacity);
  for (int64_t s = std::max(num_begun_ + 1, num_begun - capacity + 1); s <= num_begun; ++s) {
    begun_.push_back({s, job_.recorder->begin(group_.name, call_of(s))});
  }
  while (!begun_.empty() && begun_.front().sequence <= num_ended) {
    job_.recorder->finish(begun_.front().number);
    begun_.pop_front();
  }
}

void NcclGroup::observe(Clock::time_point now) {
  const int64_t num_ended = progress_.num_ended();  // first: an end comes after its begin
  const int64_t num_begun = progress_.num_begun();
  if (num_begun != num_begun_ || num_ended != num_ended_) {
    note_progress(num_begun, num_ended);
    num_begun_ = num_begun;
    num_ended_ = num_ended;
    moved_ = now;
  }
  const ncclResult_t state = async_state();
  const bool is_waiting = num_begun > num_ended;
  const bool is_well = state == ncclSuccess || state == ncclInProgress;
  if (is_well) well_ = now;
  if (now - well_ > kBeforeBlame) fail_(group_, call_of(num_begun), trouble_of(state));
  if (!is_waiting) return;
  if (now - moved_ > job_.timeout - grace_of(job_.timeout)) {
    fail_(group_, call_of(num_begun), {"the timeout passed", {}});
  }
  const bool has_one_left = std::any_of(group_.ranks.begin(), group_.ranks.end(),
                                        [&](int rank) { return job_.watch->has_left(rank); });
  if (has_one_left && now - moved_ > kAfterLeaving) {
    fail_(group_, call_of(num_begun), {"a rank has left", {}});
  }
}

bool NcclGroup::is_waiting() const {
  const int64_t num_ended = progress_.num_ended();  // first, as above
  return progress_.num_begun() > num_ended;
}

void NcclGroup::fail_too() {
  fail_(group_, call_of(progress_.num_begun()), {"the job failed", {}});
}

void NcclGroup::abort() {
  ncclComm_t communicator = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    std::swap(communicator, communicator_);
  }
  if (communicator != nullptr) api_.ncclCommAbort(communicator);
}

void NcclGroup::finish() {
  ncclResult_t result = ncclSuccess;
  {
    const std::scoped_lock lock(mutex_);
    if (communicator_ == nullptr) return;
    result = api_.ncclCommFinalize(communicator_);
  }
  const auto deadline = Clock::now() + job_.timeout;
  while (result == ncclInProgress && !job_.watch->has_failed() && Clock::now() < deadline) {
    std::this_thread::sleep_for(kPoll);
    result = async_state();
  }
  if (result != ncclSuccess) return abort();
  const std::scoped_lock lock(mutex_);
  api_.ncclCommDestroy(communicator_);
  communicator_ = nullptr;
}

}  // namespace monograph::comm
