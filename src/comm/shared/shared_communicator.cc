#include "comm/shared/shared_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace monograph::comm {
namespace {

// How often a sleeping rank looks whether the job failed.
constexpr Milliseconds kSlice{20};
// A piece that stays in the first cache while all ranks' buffers are added to it and it to them.
constexpr int64_t kBlockBytes = 16 << 10;

void copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace

// Elements [begin, begin + count) of every block of every rank, for one round of an exchange.
struct SharedCommunicator::Views {
  SharedCommunicator& owner;
  const Call& call;
  int64_t block_count;  // elements of a whole block
  int64_t begin;
  int64_t count;

  int64_t element_bytes() const { return bytes_of(call.type); }
  char* at(int rank, int64_t block) const {
    const BufferPlace& place = owner.posted(rank).place;
    if (place.is_private()) return owner.arena_.staging(rank) + block * count * element_bytes();
    return owner.memory_->resolve(rank, place) + (block * block_count + begin) * element_bytes();
  }
};

SharedCommunicator::SharedCommunicator(std::string name, Group group, Job job, Arena arena,
                                       std::shared_ptr<PeerMemory> memory)
    : CheckedCommunicator(std::move(group), std::move(job)),
      name_(std::move(name)),
      arena_(arena),
      memory_(std::move(memory)) {}

void SharedCommunicator::wait_for(SharedCounter& counter, uint32_t target, int peer) {
  const int world_rank = group().ranks[static_cast<size_t>(peer)];
  while (!counter.wait(target, kSlice)) {
    const bool has_left = watch().has_left(world_rank);
    const bool is_late = Clock::now() >= deadline_;
    if (!has_left && !is_late && !watch().has_failed()) continue;
    if (counter.has_reached(target)) return;  // it came before it left
    throw CallTrouble({is_late ? "the timeout passed" : "the job failed", {world_rank}});
  }
}

void SharedCommunicator::reach_barrier() {
  arena_.slot(rank()).phase.raise();
  ++phase_;
  for (int peer = 0; peer < size(); ++peer) wait_for(arena_.slot(peer).phase, phase_, peer);
}

void SharedCommunicator::post(const Call& call, const BufferPlace& place) {
  parity_ = static_cast<size_t>(call.sequence % 2);
  arena_.slot(rank()).posts[parity_] = {call, place};
}

const Arena::Post& SharedCommunicator::posted(int rank) {
  return arena_.slot(rank).posts[parity_];
}

void SharedCommunicator::meet(const Call& call) {
  reach_barrier();
  for (int peer = 0; peer < size(); ++peer) {
    const Call& other = posted(peer).call;
    if (agree(call, other)) continue;
    const int world_rank = group().ranks[static_cast<size_t>(peer)];
    throw CallTrouble({fmt::format("rank {} called {}", world_rank, describe(other, group())),
                       {world_rank},
                       true});
  }
}

// Shows `num_blocks` blocks of call.count elements to the others (0: this rank gives nothing) and
// calls pull(views) once all ranks have shown theirs: once for everything, or in rounds where some
// rank's data goes through its piece of the arena. `result` is where that piece goes after a round
// that changed it; nullptr: nowhere.
template <typename Pull>
void SharedCommunicator::exchange(const Call& call, const void* source, int64_t num_blocks,
                                  char* result, Pull pull) {
  const int64_t size_bytes = bytes_of(call.type);
  const char* data = static_cast<const char*>(source);
  BufferPlace place = {BufferPlace::kUnused, 0};
  if (num_blocks > 0) place = memory_->locate(data, num_blocks * call.count * size_bytes);
  // Every rank must cut into the same rounds, whatever it gives itself.
  const int64_t most_blocks =
      call.operation == Operation::kReduceScatter || call.operation == Operation::kAllToAll ? size()
                                                                                            : 1;
  const int64_t staged = Arena::kStagingBytes / (most_blocks * size_bytes);
  const auto stage = [&](int64_t begin, int64_t count) {
    for (int64_t block = 0; place.is_private() && block < num_blocks; ++block) {
      copy(arena_.staging(rank()) + block * count * size_bytes,
           data + (block * call.count + begin) * size_bytes, count * size_bytes);
    }
  };
  stage(0, std::min(staged, call.count));
  post(call, place);
  meet(call);
  bool is_any_private = false;
  for (int peer = 0; peer < size(); ++peer) is_any_private |= posted(peer).place.is_private();
  const int64_t step = is_any_private ? staged : std::max<int64_t>(call.count, 1);
  for (int64_t begin = 0; begin == 0 || begin < call.count; begin += step) {
    const int64_t count = std::min(step, call.count - begin);
    if (begin > 0) {
      stage(begin, count);
      reach_barrier();
    }
    pull(Views{*this, call, call.count, begin, count});
    reach_barrier();
    if (place.is_private() && result != nullptr) {
      copy(result + begin * size_bytes, arena_.staging(rank()), count * size_bytes);
    }
  }
}

void SharedCommunicator::all_reduce_slice(const Views& views) {
  constexpr int64_t kGrain = 64;  // elements: slices begin at whole cache lines of the buffers
  const int64_t grains = (views.count + kGrain - 1) / kGrain;
  const int64_t first = std::min(views.count, grains * rank() / size() * kGrain);
  const int64_t last = std::min(views.count, grains * (rank() + 1) / size() * kGrain);
  const int64_t block = kBlockBytes / views.element_bytes();
  for (int64_t begin = first; begin < last; begin += block) {
    const int64_t count = std::min(block, last - begin);
    const int64_t offset = begin * views.element_bytes();
    char* sum = views.at(0, 0) + offset;
    for (int peer = 1; peer < size(); ++peer) {
      reduce_into(sum, views.at(peer, 0) + offset, count, views.call.type, views.call.reduce);
    }
    for (int peer = 1; peer < size(); ++peer) {
      copy(views.at(peer, 0) + offset, sum, count * views.element_bytes());
    }
  }
}

void SharedCommunicator::perform(const Call& call, const void* from, void* to,
                                 Clock::time_point deadline) {
  deadline_ = deadline;
  char* out = static_cast<char*>(to);
  const int64_t size_bytes = bytes_of(call.type);
  const auto target = [&](const Views& views, int64_t block) {
    return out + (block * call.count + views.begin) * size_bytes;
  };
  switch (call.operation) {
    case Operation::kAllReduce:
      return exchange(call, from, 1, out, [&](const Views& views) { all_reduce_slice(views); });
    case Operation::kBroadcast:
      return exchange(call, from, call.peer == rank() ? 1 : 0, nullptr, [&](const Views& views) {
        if (call.peer == rank()) return;
        copy(target(views, 0), views.at(call.peer, 0), views.count * size_bytes);
      });
    case Operation::kAllGather:
      return exchange(call, from, 1, nullptr, [&](const Views& views) {
        for (int peer = 0; peer < size(); ++peer) {
          copy(target(views, peer), views.at(peer, 0), views.count * size_bytes);
        }
      });
    case Operation::kReduceScatter:
      return exchange(call, from, size(), nullptr, [&](const Views& views) {
        copy(target(views, 0), views.at(0, rank()), views.count * size_bytes);
        for (int peer = 1; peer < size(); ++peer) {
          reduce_into(target(views, 0), views.at(peer, rank()), views.count, call.type,
                      call.reduce);
        }
      });
    case Operation::kAllToAll:
      return exchange(call, from, size(), nullptr, [&](const Views& views) {
        for (int peer = 0; peer < size(); ++peer) {
          copy(target(views, peer), views.at(peer, rank()), views.count * size_bytes);
        }
      });
    case Operation::kBarrier: {
      post(call, {BufferPlace::kUnused, 0});
      return meet(call);
    }
    case Operation::kSend:
      return send_to(call, from);
    case Operation::kRecv:
      return recv_from(call, to);
  }
}

// Through the pair's mailbox: the data as a whole, or in rounds through the sender's piece of the
// arena. The sender stays until the last round was taken.
void SharedCommunicator::send_to(const Call& call, const void* data) {
  Arena::Mailbox& mailbox = arena_.mailbox(rank(), call.peer);
  const int64_t size_bytes = bytes_of(call.type);
  const BufferPlace place = memory_->locate(data, call.count * size_bytes);
  const int64_t step = place.is_private() ? Arena::kStagingBytes / size_bytes : call.count;
  mailbox.post = {call, place};
  for (int64_t begin = 0; begin == 0 || begin < call.count; begin += step) {
    if (place.is_private()) {
      copy(arena_.staging(rank()), static_cast<const char*>(data) + begin * size_bytes,
           std::min(step, call.count - begin) * size_bytes);
    }
    mailbox.sent.raise();
    wait_for(mailbox.taken, mailbox.sent.value(), call.peer);
    if (call.count == 0) return;
  }
}

void SharedCommunicator::recv_from(const Call& call, void* data) {
  Arena::Mailbox& mailbox = arena_.mailbox(call.peer, rank());
  const int64_t size_bytes = bytes_of(call.type);
  for (int64_t begin = 0; begin == 0 || begin < call.count;) {
    wait_for(mailbox.sent, mailbox.taken.value() + 1, call.peer);
    const BufferPlace place = mailbox.post.place;
    if (!agree(call, mailbox.post.call)) {
      const int world_rank = group().ranks[static_cast<size_t>(call.peer)];
      throw CallTrouble(
          {fmt::format("rank {} called {}", world_rank, describe(mailbox.post.call, group())),
           {world_rank},
           true});
    }
    const int64_t left = call.count - begin;
    const int64_t count =
        place.is_private() ? std::min(left, Arena::kStagingBytes / size_bytes) : left;
    const char* source =
        place.is_private() ? arena_.staging(call.peer) : memory_->resolve(call.peer, place);
    copy(static_cast<char*>(data) + begin * size_bytes, source, count * size_bytes);
    mailbox.taken.raise();
    begin += count;
    if (call.count == 0) return;
  }
}

}  // namespace monograph::comm
