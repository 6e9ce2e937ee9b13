#include "comm/nccl/nccl_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <thread>

#include "comm/nccl/nccl_group.h"

namespace monograph::comm {
namespace {

constexpr Milliseconds kWatchEvery{10};

class NcclWorld : public GpuWorld {
 public:
  NcclWorld(World& world, device::cuda::ContextPtr context, const NcclApi& api)
      : api_(api),
        world_(world),
        job_(world.job()),
        context_(std::move(context)),
        num_exceptions_(std::uncaught_exceptions()) {
    // Sessions make their worlds in the same order on all ranks.
    const auto number = world.store->add(fmt::format("nccl/worlds/{}", world.rank), 1);
    prefix_ = fmt::format("nccl/{}/", number);
    refuse_shared_gpus();
    thread_ = std::thread([this] { watch(); });
  }

  ~NcclWorld() override {
    {
      const std::scoped_lock lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
    const bool is_failing = std::uncaught_exceptions() > num_exceptions_;
    for (const auto& group : groups_) {
      if (failed_ == nullptr && !is_failing) group->finish();
    }
    for (std::thread& each : aborts_) each.join();
  }

  GpuGroup& split(std::span<const int> ranks, std::string_view name) override {
    check();
    const Group group = world_.make_group(ranks, fmt::format("{} (NCCL)", name));
    const std::string members = fmt::format("{}/{}", name, describe_ranks(group.ranks));
    const std::string prefix = fmt::format("{}{}/{}/", prefix_, members, num_splits_[members]++);
    auto made =
        std::make_shared<NcclGroup>(api_, group, job_, context_, *world_.store, prefix,
                                    [this](const Group& of, const Call& call,
                                           const Trouble& trouble) { fail(of, call, trouble); });
    const std::scoped_lock lock(mutex_);
    groups_.push_back(made);
    return *made;
  }

  void check() const override {
    const std::scoped_lock lock(mutex_);
    if (failed_ != nullptr) std::rethrow_exception(failed_);
  }

 private:
  void refuse_shared_gpus() {
    const auto key = [this](int rank) { return fmt::format("{}gpu/{}", prefix_, rank); };
    world_.store->set(key(world_.rank), context_->properties().uuid);
    std::map<std::string, std::vector<int>> users;
    for (int rank = 0; rank < world_.size; ++rank) {
      users[world_.store->get(key(rank), job_.timeout)].push_back(rank);
    }
    for (const auto& [uuid, ranks] : users) {
      if (ranks.size() < 2) continue;
      throw_user_error(
          "{} have the same GPU ({}, {}), but NCCL takes one rank a GPU: start no more ranks on a "
          "host than it has GPUs, and let each see its own (CUDA_VISIBLE_DEVICES), or use --device "
          "cpu",
          describe_ranks(ranks), context_->properties().name, uuid);
    }
  }

  // Settles with the other ranks, unless that was done, and throws.
  [[noreturn]] void fail(const Group& group, const Call& call, const Trouble& trouble) {
    check();
    const Failure failure = job_.watch->settle(group, call, trouble);
    {
      const std::scoped_lock lock(mutex_);
      if (failed_ == nullptr) failed_ = std::make_exception_ptr(error_of(group, call, failure));
    }
    changed_.notify_all();
    check();
    throw_internal_error("a failure was not kept");
  }

  // The groups, which only grow, by a copy: what is done with them may take long.
  std::vector<std::shared_ptr<NcclGroup>> groups() const {
    const std::scoped_lock lock(mutex_);
    return groups_;
  }

  void watch() {
    std::unique_lock lock(mutex_);
    while (!is_ending_ && failed_ == nullptr) {
      changed_.wait_for(lock, kWatchEvery);
      if (is_ending_ || failed_ != nullptr) break;
      lock.unlock();
      try {
        look();
      } catch (const CommError&) {  // is kept
      }
      lock.lock();
    }
    if (failed_ == nullptr) return;
    // Each on its own: one may wait for a graph that ends only when the other is aborted.
    for (const auto& group : groups_) aborts_.emplace_back([group] { group->abort(); });
  }

  void look() {
    const auto known = groups();
    const auto now = Clock::now();
    if (!job_.watch->has_failed()) {
      for (const auto& group : known) group->observe(now);
      return;
    }
    const auto waiting = std::find_if(known.begin(), known.end(),
                                      [](const auto& group) { return group->is_waiting(); });
    if (waiting != known.end()) (*waiting)->fail_too();
    if (!known.empty()) known.front()->fail_too();
  }

  const NcclApi& api_;
  World& world_;
  const Job job_;
  const device::cuda::ContextPtr context_;
  const int num_exceptions_;
  std::string prefix_;
  std::map<std::string, int> num_splits_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<std::shared_ptr<NcclGroup>> groups_;
  std::exception_ptr failed_;
  bool is_ending_ = false;
  std::vector<std::thread> aborts_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<GpuWorld> make_nccl_world(World& world, device::cuda::ContextPtr context,
                                          const NcclApi& api) {
  return std::make_unique<NcclWorld>(world, std::move(context), api);
}

std::unique_ptr<GpuWorld> make_nccl_world(World& world, device::cuda::ContextPtr context) {
  return make_nccl_world(world, std::move(context), nccl());
}

}  // namespace monograph::comm
