#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/job_watch.h"
#include "comm/store/tcp_store.h"

namespace monograph::comm {

// A rank's watch over its job, by a connection to the store's server: a thread answers how far this
// rank is, whatever its other threads wait for, and hears when a rank fails or leaves. A process
// that is stopped does not answer, one that ended loses its connection: so the two are told apart.
class StoreWatch : public JobWatch {
 public:
  // on_failure is called once, on the watch's thread, when the job's first failure is known.
  StoreWatch(const StoreAddress& address, std::shared_ptr<FlightRecorder> recorder,
             Milliseconds timeout, std::function<void()> on_failure);
  ~StoreWatch() override;

  bool has_failed() const override { return has_failed_; }
  bool has_left(int world_rank) const override {
    return has_left_[static_cast<size_t>(world_rank)];
  }
  Failure settle(const Group& group, const Call& call, const Trouble& trouble) override;
  void keep(std::shared_ptr<void> connections) override;

  // Makes this the job's first failure unless there is one.
  void report(const Failure& failure);
  // Says that this rank is done with the job; problem: why, if it is not as it should be.
  void leave(const std::string& problem);

 private:
  void listen();
  void handle(std::string_view body);
  void set_failure(const Failure& failure);
  std::optional<Failure> first_failure() const;
  std::optional<std::vector<RankReport>> ask(const Group& group);
  Failure lost_store(const std::string& problem) const;
  bool send(FrameWriter& message);

  const StoreAddress address_;
  const std::shared_ptr<FlightRecorder> recorder_;
  const Milliseconds grace_;
  const std::function<void()> on_failure_;
  std::atomic<bool> has_failed_ = false;
  std::vector<std::atomic<bool>> has_left_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::optional<Failure> failure_;
  int64_t num_questions_ = 0;
  int64_t answered_question_ = 0;
  std::vector<RankReport> reports_;
  bool is_leaving_ = false;
  std::vector<std::shared_ptr<void>> kept_;
  std::mutex send_mutex_;
  std::string received_;
  Socket socket_;
  std::thread thread_;
};

}  // namespace monograph::comm
