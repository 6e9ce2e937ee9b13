#include "comm/gloo/gloo_communicator.h"

#include <fmt/format.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "base/error.h"

namespace monograph::comm {
namespace {

// Tags of our own messages; Gloo's collectives use prefixes from 1 to 10 in the top byte.
constexpr uint64_t kCallTag = uint64_t{0x70} << 56;
constexpr uint64_t kRingTag = uint64_t{0x71} << 56;
constexpr uint64_t kPairTag = uint64_t{0x72} << 56;

// Gloo's view of our store.
class GlooStore : public gloo::rendezvous::Store {
 public:
  GlooStore(std::shared_ptr<comm::Store> store, std::string prefix, Milliseconds timeout)
      : store_(std::move(store)), prefix_(std::move(prefix)), timeout_(timeout) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_->set(prefix_ + key, {data.data(), data.size()});
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = store_->get(prefix_ + key, timeout_);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const Milliseconds& timeout) override {
    std::vector<std::string> named;
    for (const std::string& key : keys) named.push_back(prefix_ + key);
    store_->wait(named, std::min(timeout, timeout_));
  }

 private:
  const std::shared_ptr<comm::Store> store_;
  const std::string prefix_;
  const Milliseconds timeout_;
};

Milliseconds time_left(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
  return std::max(left, Milliseconds(1));  // 0 is Gloo's word for no timeout
}

std::shared_ptr<void> allocate_pages(int64_t bytes) {
  constexpr std::align_val_t kPage{4096};
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  void* data = ::operator new(size, kPage);
  std::memset(data, 0, size);
  return {data, [](void* p) { ::operator delete(p, kPage); }};
}

// Only the width matters: it keeps Gloo from cutting an element in two.
void set_output(gloo::AllreduceOptions& options, void* data, const Call& call) {
  const auto count = static_cast<size_t>(call.count);
  switch (bytes_of(call.type)) {
    case 1:
      return options.setOutput(static_cast<uint8_t*>(data), count);
    case 2:
      return options.setOutput(static_cast<uint16_t*>(data), count);
    case 4:
      return options.setOutput(static_cast<uint32_t*>(data), count);
    default:
      return options.setOutput(static_cast<uint64_t*>(data), count);
  }
}

// out = a op b; Gloo gives one of them as out as well.
gloo::AllreduceOptions::Func reduction(const Call& call) {
  return [type = call.type, op = call.reduce](void* out, const void* a, const void* b, size_t n) {
    const auto count = static_cast<int64_t>(n);
    if (out == b) return reduce_into(out, a, count, type, op);
    if (out != a) std::memcpy(out, a, n * static_cast<size_t>(bytes_of(type)));
    reduce_into(out, b, count, type, op);
  };
}

class GlooCommunicator : public CheckedCommunicator {
 public:
  GlooCommunicator(Group group, Job job, std::shared_ptr<gloo::rendezvous::Context> context)
      : CheckedCommunicator(std::move(group), std::move(job)),
        context_(std::move(context)),
        sent_buffer_(context_->createUnboundBuffer(&sent_, sizeof sent_)),
        received_buffer_(context_->createUnboundBuffer(&received_, sizeof received_)) {}
  // Where an exception ends this rank, the others hear of that before its connections end.
  ~GlooCommunicator() override {
    if (std::uncaught_exceptions() > num_exceptions_) watch().keep(context_);
  }

  std::shared_ptr<void> allocate(int64_t bytes) override { return allocate_pages(bytes); }
  std::string name() const override { return "gloo"; }

 protected:
  void perform(const Call& call, const void* from, void* to, Clock::time_point deadline) override;
  void abandon() override { context_->closeConnections(); }

 private:
  void compare_calls(const Call& call, int to, int from, uint64_t tag, Clock::time_point deadline);
  void run_collective(const Call& call, const void* from, void* to, Clock::time_point deadline);
  void reduce_scatter_ring(const Call& call, const char* from, char* to,
                           Clock::time_point deadline);
  void send_or_receive(const Call& call, const void* from, void* to, Clock::time_point deadline);

  const int num_exceptions_ = std::uncaught_exceptions();
  const std::shared_ptr<gloo::rendezvous::Context> context_;
  Call sent_;
  Call received_;
  std::unique_ptr<gloo::transport::UnboundBuffer> sent_buffer_;
  std::unique_ptr<gloo::transport::UnboundBuffer> received_buffer_;
};

// Sends this rank's call to `to`, gets that of `from`; -1: of nobody. In a ring each pair of
// neighbours is compared, so two calls that differ anywhere meet somewhere.
void GlooCommunicator::compare_calls(const Call& call, int to, int from, uint64_t tag,
                                     Clock::time_point deadline) {
  sent_ = call;
  if (from >= 0) received_buffer_->recv(from, tag);
  if (to >= 0) sent_buffer_->send(to, tag);
  if (from >= 0) received_buffer_->waitRecv(nullptr, time_left(deadline));
  if (to >= 0) sent_buffer_->waitSend(nullptr, time_left(deadline));
  if (from < 0 || agree(call, received_)) return;
  const int world_rank = group().ranks[static_cast<size_t>(from)];
  throw CallTrouble({fmt::format("rank {} called {}", world_rank, describe(received_, group())),
                     {world_rank},
                     true});
}

void GlooCommunicator::perform(const Call& call, const void* from, void* to,
                               Clock::time_point deadline) {
  try {
    if (is_pairwise(call.operation)) {
      send_or_receive(call, from, to, deadline);
    } else {
      const int next = (rank() + 1) % size();
      const int previous = (rank() + size() - 1) % size();
      compare_calls(call, next, previous, kCallTag, deadline);
      run_collective(call, from, to, deadline);
    }
  } catch (const gloo::Exception& error) {
    // Gloo has one type for both: a wait that was given less than a millisecond more is late.
    const bool is_late = Clock::now() + Milliseconds(2) >= deadline;
    throw CallTrouble({error.what(), {}, false, !is_late});
  }
}

void GlooCommunicator::run_collective(const Call& call, const void* from, void* to,
                                      Clock::time_point deadline) {
  const auto element = static_cast<size_t>(bytes_of(call.type));
  const auto bytes = static_cast<size_t>(call.count) * element;
  const auto world_bytes = bytes * static_cast<size_t>(size());
  // Gloo does not write to what it takes as an input.
  const auto buffer = [&](const void* data, size_t length) {
    return context_->createUnboundBuffer(const_cast<void*>(data), length);
  };
  if (call.operation == Operation::kBarrier) {
    gloo::BarrierOptions options(context_);
    options.setTimeout(time_left(deadline));
    return gloo::barrier(options);
  }
  if (call.count == 0) return;
  switch (call.operation) {
    case Operation::kAllReduce: {
      gloo::AllreduceOptions options(context_);
      options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
      set_output(options, to, call);
      options.setReduceFunction(reduction(call));
      options.setTimeout(time_left(deadline));
      return gloo::allreduce(options);
    }
    case Operation::kBroadcast: {
      gloo::BroadcastOptions options(context_);
      options.setOutput(static_cast<char*>(to), bytes);
      options.setRoot(call.peer);
      options.setTimeout(time_left(deadline));
      return gloo::broadcast(options);
    }
    case Operation::kAllGather: {
      gloo::AllgatherOptions options(context_);
      options.setInput<char>(buffer(from, bytes));
      options.setOutput(static_cast<char*>(to), world_bytes);
      options.setTimeout(time_left(deadline));
      return gloo::allgather(options);
    }
    case Operation::kAllToAll: {
      gloo::AlltoallOptions options(context_);
      options.setInput<char>(buffer(from, world_bytes));
      options.setOutput(static_cast<char*>(to), world_bytes);
      options.setTimeout(time_left(deadline));
      return gloo::alltoall(options);
    }
    default:
      return reduce_scatter_ring(call, static_cast<const char*>(from), static_cast<char*>(to),
                                 deadline);
  }
}

// P - 1 steps; in each a rank passes on the partial sum of one block and adds its own to the one
// that it gets. Block b is added up in the order b + 1, b + 2, ..., b, and ends in rank b.
void GlooCommunicator::reduce_scatter_ring(const Call& call, const char* from, char* to,
                                           Clock::time_point deadline) {
  const auto bytes = static_cast<size_t>(call.count * bytes_of(call.type));
  const int next = (rank() + 1) % size();
  const int previous = (rank() + size() - 1) % size();
  const auto own_block = [&](int back) {
    return from + static_cast<size_t>((rank() + 2 * size() - back) % size()) * bytes;
  };
  std::vector<char> partial(own_block(1), own_block(1) + bytes);
  std::vector<char> incoming(bytes);
  for (int step = 0; step + 1 < size(); ++step) {
    const auto out = context_->createUnboundBuffer(partial.data(), bytes);
    const auto in = context_->createUnboundBuffer(incoming.data(), bytes);
    in->recv(previous, kRingTag);
    out->send(next, kRingTag);
    in->waitRecv(nullptr, time_left(deadline));
    reduce_into(incoming.data(), own_block(step + 2), call.count, call.type, call.reduce);
    out->waitSend(nullptr, time_left(deadline));
    partial.swap(incoming);
  }
  std::memcpy(to, partial.data(), bytes);
}

void GlooCommunicator::send_or_receive(const Call& call, const void* from, void* to,
                                       Clock::time_point deadline) {
  const bool is_send = call.operation == Operation::kSend;
  compare_calls(call, is_send ? call.peer : -1, is_send ? -1 : call.peer, kPairTag, deadline);
  if (call.count == 0) return;
  const auto bytes = static_cast<size_t>(call.count * bytes_of(call.type));
  const auto data = context_->createUnboundBuffer(is_send ? const_cast<void*>(from) : to, bytes);
  if (is_send) {
    data->send(call.peer, kPairTag);
    data->waitSend(nullptr, time_left(deadline));
  } else {
    data->recv(call.peer, kPairTag);
    data->waitRecv(nullptr, time_left(deadline));
  }
}

}  // namespace

std::unique_ptr<CheckedCommunicator> make_gloo_communicator(const Group& group, const Job& job,
                                                            std::shared_ptr<Store> store,
                                                            const std::string& prefix,
                                                            const std::string& address) {
  try {
    auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()));
    auto context = std::make_shared<gloo::rendezvous::Context>(group.index, group.size());
    // Of connecting alone, for which Gloo waits five times as long: each call gives its own.
    context->setTimeout(std::max(job.timeout / 5, Milliseconds(1)));
    GlooStore names(std::move(store), prefix, job.timeout);
    context->connectFullMesh(names, device);
    return std::make_unique<GlooCommunicator>(group, job, std::move(context));
  } catch (const std::exception& error) {  // Gloo also throws what is not its own
    throw CommError(
        fmt::format("[split] group '{}': rank {} could not connect to the others by "
                    "Gloo at {}: {}",
                    group.name, group.world_rank(), address, error.what()));
  }
}

}  // namespace monograph::comm
