#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace monograph::runtime {

// Runs collectives one after the other on a thread of its own, beside the computation.
class CommunicationLane {
 public:
  CommunicationLane();
  ~CommunicationLane();  // after what is under way; what waits is dropped
  CommunicationLane(const CommunicationLane&) = delete;
  CommunicationLane& operator=(const CommunicationLane&) = delete;

  // Queues work and returns its number. After a failure, work is dropped until drain().
  int64_t start(std::function<void()> work);
  // Until that work, and all before it, is done; throws what it, or work before it, has thrown.
  void wait(int64_t number);
  // Until nothing is under way; forgets failures. A step that fails ends with it, so that nobody
  // writes to its memory any more.
  void drain();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  int64_t num_started_ = 0, num_done_ = 0;
  std::exception_ptr failure_;
  bool is_ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace monograph::runtime
