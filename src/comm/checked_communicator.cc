#include "comm/checked_communicator.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace monograph::comm {
CheckedCommunicator::CheckedCommunicator(Group group, Job job)
    : group_(std::move(group)), job_(std::move(job)) {
  job_.recorder->add_group(group_);
}

void CheckedCommunicator::all_reduce(void* data, int64_t count, ElementType type, ReduceOp op,
                                     std::string_view label) {
  Call call = make_call(Operation::kAllReduce, count, type, label);
  call.reduce = op;
  run(call, data, data);
}

void CheckedCommunicator::broadcast(void* data, int64_t count, ElementType type, int root,
                                    std::string_view label) {
  Call call = make_call(Operation::kBroadcast, count, type, label);
  call.peer = root;
  run(call, data, data);
}

void CheckedCommunicator::all_gather(const void* mine, void* all, int64_t count, ElementType type,
                                     std::string_view label) {
  run(make_call(Operation::kAllGather, count, type, label), mine, all);
}

void CheckedCommunicator::reduce_scatter(const void* all, void* mine, int64_t count,
                                         ElementType type, ReduceOp op, std::string_view label) {
  Call call = make_call(Operation::kReduceScatter, count, type, label);
  call.reduce = op;
  run(call, all, mine);
}

void CheckedCommunicator::all_to_all(const void* from, void* to, int64_t count, ElementType type,
                                     std::string_view label) {
  run(make_call(Operation::kAllToAll, count, type, label), from, to);
}

void CheckedCommunicator::send(const void* data, int64_t count, ElementType type, int to,
                               std::string_view label) {
  Call call = make_call(Operation::kSend, count, type, label);
  call.peer = to;
  run(call, data, nullptr);
}

void CheckedCommunicator::recv(void* data, int64_t count, ElementType type, int from,
                               std::string_view label) {
  Call call = make_call(Operation::kRecv, count, type, label);
  call.peer = from;
  run(call, nullptr, data);
}

void CheckedCommunicator::barrier(std::string_view label) {
  run(make_call(Operation::kBarrier, 0, ElementType::kU8, label), nullptr, nullptr);
}

void CheckedCommunicator::run(Call call, const void* from, void* to) {
  const bool has_peer = is_pairwise(call.operation) || call.operation == Operation::kBroadcast;
  const bool is_self = is_pairwise(call.operation) && call.peer == rank();
  check(call.count >= 0, "[{}] count {} of '{}'", name_of(call.operation), call.count,
        call.label_text());
  check(!has_peer || (call.peer >= 0 && call.peer < size() && !is_self),
        "[{}] rank {} as the other side of '{}' in rank {} of a group of {}",
        name_of(call.operation), call.peer, call.label_text(), rank(), size());
  if (failed_) std::rethrow_exception(failed_);
  call.sequence = is_pairwise(call.operation) ? ++num_pairwise_calls_[{call.operation, call.peer}]
                                              : ++num_calls_;
  const int64_t number = job_.recorder->begin(group_.name, call);
  try {
    if (size() > 1) {
      const Milliseconds wait = job_.timeout - grace_of(job_.timeout);
      perform(call, from, to, Clock::now() + wait);
    } else if (from != to && call.count > 0) {
      std::memcpy(to, from, static_cast<size_t>(call.count * bytes_of(call.type)));
    }
  } catch (const CallTrouble& trouble) {
    fail(call, trouble.trouble);
  } catch (const CommError& error) {  // of the store, or of memory that cannot be mapped
    fail(call, {error.what(), {}});
  }
  job_.recorder->finish(number);
}

void CheckedCommunicator::fail(const Call& call, const Trouble& trouble) {
  const CommError error = error_of(group_, call, job_.watch->settle(group_, call, trouble));
  abandon();
  failed_ = std::make_exception_ptr(error);
  throw error;
}

}  // namespace monograph::comm
