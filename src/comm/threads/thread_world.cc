#include "comm/threads/thread_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/shared/shared_communicator.h"
#include "comm/store/local_store.h"

namespace monograph::comm {
namespace {

std::shared_ptr<void> allocate_pages(int64_t bytes) {
  constexpr std::align_val_t kPage{4096};
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  void* data = ::operator new(size, kPage);
  std::memset(data, 0, size);
  return {data, [](void* p) { ::operator delete(p, kPage); }};
}

// All memory of the process, by its address.
class ProcessMemory : public PeerMemory {
 public:
  BufferPlace locate(const void* data, int64_t) const override {
    return {0, reinterpret_cast<int64_t>(data)};
  }
  char* resolve(int, const BufferPlace& place) override {
    return reinterpret_cast<char*>(place.offset);
  }
  std::shared_ptr<void> allocate(int64_t bytes) override { return allocate_pages(bytes); }
};

// What the ranks of one run share.
class ThreadJob {
 public:
  explicit ThreadJob(int size) : store(std::make_shared<LocalStore>()), has_left_(size) {
    for (int rank = 0; rank < size; ++rank) {
      recorders.push_back(std::make_shared<FlightRecorder>(rank));
    }
  }

  const std::shared_ptr<LocalStore> store;
  std::vector<std::shared_ptr<FlightRecorder>> recorders;

  bool has_failed() const { return has_failed_; }
  bool has_left(int rank) const { return has_left_[static_cast<size_t>(rank)]; }
  void leave(int rank) { has_left_[static_cast<size_t>(rank)] = true; }

  Failure settle(const Failure& failure) {
    const std::scoped_lock lock(mutex_);
    if (!failure_) failure_ = failure;
    has_failed_ = true;
    return *failure_;
  }

  // The arena of a group, made by the first rank that comes; gone with the last communicator.
  std::shared_ptr<void> arena(const Group& group) {
    const std::string key = fmt::format("{}/{}", group.name, describe_ranks(group.ranks));
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<void> arena = arenas_[key].lock();
    if (arena == nullptr) arenas_[key] = arena = allocate_pages(Arena::bytes(group.size()));
    return arena;
  }

 private:
  std::mutex mutex_;
  std::optional<Failure> failure_;
  std::atomic<bool> has_failed_ = false;
  std::vector<std::atomic<bool>> has_left_;
  std::map<std::string, std::weak_ptr<void>> arenas_;
};

class ThreadWatch : public JobWatch {
 public:
  explicit ThreadWatch(std::shared_ptr<ThreadJob> job) : job_(std::move(job)) {}

  bool has_failed() const override { return job_->has_failed(); }
  bool has_left(int world_rank) const override { return job_->has_left(world_rank); }
  Failure settle(const Group& group, const Call& call, const Trouble& trouble) override {
    std::vector<RankReport> reports;
    for (size_t rank = 0; rank < job_->recorders.size(); ++rank) {
      const bool has_left = job_->has_left(static_cast<int>(rank));
      reports.push_back({has_left ? RankReport::State::kLeft : RankReport::State::kAlive,
                         job_->recorders[rank]->progress(group.name)});
    }
    return job_->settle(judge(group, call, trouble, reports));
  }
  void keep(std::shared_ptr<void>) override {}  // threads have no connections to end

 private:
  const std::shared_ptr<ThreadJob> job_;
};

// Keeps the arena alive for as long as one of its ranks uses it.
class ThreadCommunicator : public SharedCommunicator {
 public:
  ThreadCommunicator(const Group& group, Job job, std::shared_ptr<void> arena)
      : SharedCommunicator("threads", group, std::move(job),
                           Arena(static_cast<char*>(arena.get()), group.size()),
                           std::make_shared<ProcessMemory>()),
        arena_(std::move(arena)) {}

 private:
  const std::shared_ptr<void> arena_;
};

class ThreadWorld : public World {
 public:
  ThreadWorld(int rank_of_this, std::shared_ptr<ThreadJob> job, ThreadWorldOptions options)
      : job_(std::move(job)),
        watch_(std::make_shared<ThreadWatch>(job_)),
        timeout_(options.timeout) {
    rank = local_rank = rank_of_this;
    size = local_size = static_cast<int>(job_->recorders.size());
    host = "localhost";
    store = job_->store;
  }
  ~ThreadWorld() override { job_->leave(rank); }

  std::unique_ptr<Communicator> split(std::span<const int> ranks, std::string_view name) override {
    const Group group = make_group(ranks, name);
    std::shared_ptr<void> arena = job_->arena(group);
    auto made = std::make_unique<ThreadCommunicator>(group, job(), std::move(arena));
    made->barrier("split");  // the arena of an earlier group of that name is not met again
    return made;
  }
  Job job() const override {
    return {job_->recorders[static_cast<size_t>(rank)], watch_, timeout_};
  }

 private:
  const std::shared_ptr<ThreadJob> job_;
  const std::shared_ptr<ThreadWatch> watch_;
  const Milliseconds timeout_;
};

std::string what_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown exception";
  }
}

}  // namespace

void run_ranks(int size, const std::function<void(World&)>& body, ThreadWorldOptions options) {
  check(size >= 1, "a world of {} ranks", size);
  const auto job = std::make_shared<ThreadJob>(size);
  std::mutex mutex;
  std::exception_ptr first;
  const auto run_rank = [&](int rank) {
    ThreadWorld world(rank, job, options);
    try {
      body(world);
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (first == nullptr) first = std::current_exception();
      job->settle(
          {{rank}, fmt::format("rank {} failed: {}", rank, what_of(std::current_exception()))});
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(run_rank, rank);
  for (std::thread& thread : threads) thread.join();
  if (first != nullptr) std::rethrow_exception(first);
}

std::unique_ptr<World> make_single_world() {
  return std::make_unique<ThreadWorld>(0, std::make_shared<ThreadJob>(1), ThreadWorldOptions());
}

}  // namespace monograph::comm
