#include "diagnose/ordered_pieces.h"

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

namespace monograph::diagnose {
namespace {

class PieceThreads {
 public:
  explicit PieceThreads(const PieceWork& work) : work_(work), next_(work.stages.size(), 0) {}

  void run(unsigned num_threads) {
    std::vector<std::jthread> threads;
    for (unsigned slot = 1; slot < num_threads; ++slot) {
      threads.emplace_back([this, slot] { serve(slot); });
    }
    serve(0);
    threads.clear();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void serve(unsigned slot) {
    try {
      for (std::int64_t piece = 0; take(slot, piece);) {
        work_.work(slot);
        for (std::size_t stage = 0; stage < next_.size(); ++stage) {
          if (!wait_for_turn(stage, piece)) return;
          work_.stages[stage](slot);
          end_turn(stage);
        }
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      turn_.notify_all();
    }
  }

  bool take(unsigned slot, std::int64_t& piece) {
    const std::lock_guard lock(take_mutex_);
    if (has_ended_) return false;
    has_ended_ = true;  // also if take() throws
    if (!work_.take(slot)) return false;
    has_ended_ = false;
    piece = num_taken_++;
    return true;
  }

  bool wait_for_turn(std::size_t stage, std::int64_t piece) {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return error_ || next_[stage] == piece; });
    return !error_;
  }

  void end_turn(std::size_t stage) {
    const std::lock_guard lock(mutex_);
    ++next_[stage];
    turn_.notify_all();
  }

  const PieceWork& work_;
  std::mutex take_mutex_;
  bool has_ended_ = false;      // guarded by take_mutex_
  std::int64_t num_taken_ = 0;  // guarded by take_mutex_
  std::mutex mutex_;
  std::condition_variable turn_;
  std::vector<std::int64_t> next_;  // by stage, the piece whose turn it is; guarded by mutex_
  std::exception_ptr error_;        // guarded by mutex_
};

}  // namespace

void run_in_order(const PieceWork& work, unsigned num_threads) {
  if (num_threads > 1) {
    PieceThreads(work).run(num_threads);
    return;
  }
  while (work.take(0)) {
    work.work(0);
    for (const auto& stage : work.stages) stage(0);
  }
}

}  // namespace monograph::diagnose
