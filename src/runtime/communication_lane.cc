#include "runtime/communication_lane.h"

namespace monograph::runtime {

CommunicationLane::CommunicationLane() : thread_([this] { run(); }) {}

CommunicationLane::~CommunicationLane() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

int64_t CommunicationLane::start(std::function<void()> work) {
  int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    number = num_started_++;
  }
  changed_.notify_all();
  return number;
}

void CommunicationLane::wait(int64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return num_done_ > number; });
  if (failure_) std::rethrow_exception(failure_);
}

void CommunicationLane::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return num_done_ == num_started_; });
  failure_ = nullptr;
}

void CommunicationLane::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_ending_ || !queue_.empty(); });
    if (is_ending_) return;
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    if (!failure_) {
      lock.unlock();
      std::exception_ptr failure;
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      failure_ = failure;
    }
    ++num_done_;
    changed_.notify_all();
  }
}

}  // namespace monograph::runtime
