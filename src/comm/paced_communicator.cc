#include "comm/paced_communicator.h"

#include <string>
#include <thread>
#include <utility>

namespace monograph::comm {
namespace {

using Clock = std::chrono::steady_clock;

class PacedCommunicator : public Communicator {
 public:
  PacedCommunicator(std::unique_ptr<Communicator> inner, const Pace& pace)
      : inner_(std::move(inner)), pace_(pace) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string name() const override { return "paced " + inner_->name(); }
  std::shared_ptr<void> allocate(int64_t bytes) override { return inner_->allocate(bytes); }

  void all_reduce(void* data, int64_t count, ElementType type, ReduceOp op,
                  std::string_view label) override {
    const Timed timed(*this, 2 * others_share() * bytes(count, type));
    inner_->all_reduce(data, count, type, op, label);
  }
  void broadcast(void* data, int64_t count, ElementType type, int root,
                 std::string_view label) override {
    const Timed timed(*this, bytes(count, type));
    inner_->broadcast(data, count, type, root, label);
  }
  void all_gather(const void* mine, void* all, int64_t count, ElementType type,
                  std::string_view label) override {
    const Timed timed(*this, others_share() * size() * bytes(count, type));
    inner_->all_gather(mine, all, count, type, label);
  }
  void reduce_scatter(const void* all, void* mine, int64_t count, ElementType type, ReduceOp op,
                      std::string_view label) override {
    const Timed timed(*this, others_share() * size() * bytes(count, type));
    inner_->reduce_scatter(all, mine, count, type, op, label);
  }
  void all_to_all(const void* from, void* to, int64_t count, ElementType type,
                  std::string_view label) override {
    const Timed timed(*this, others_share() * size() * bytes(count, type));
    inner_->all_to_all(from, to, count, type, label);
  }
  void send(const void* data, int64_t count, ElementType type, int to,
            std::string_view label) override {
    const Timed timed(*this, bytes(count, type));
    inner_->send(data, count, type, to, label);
  }
  void recv(void* data, int64_t count, ElementType type, int from,
            std::string_view label) override {
    const Timed timed(*this, bytes(count, type));
    inner_->recv(data, count, type, from, label);
  }
  void barrier(std::string_view label) override {
    const Timed timed(*this, 0);
    inner_->barrier(label);
  }

 private:
  // Sleeps, at its end, until the call's time is over. A call that failed sleeps too.
  struct Timed {
    Timed(const PacedCommunicator& owner, double num_bytes)
        : end(Clock::now() +
              (owner.size() > 1 ? paced_time(owner.pace_, num_bytes) : Clock::duration(0))) {}
    ~Timed() { std::this_thread::sleep_until(end); }
    const Clock::time_point end;
  };

  double others_share() const { return static_cast<double>(size() - 1) / size(); }
  static double bytes(int64_t count, ElementType type) {
    return static_cast<double>(count * bytes_of(type));
  }

  const std::unique_ptr<Communicator> inner_;
  const Pace pace_;
};

}  // namespace

std::chrono::nanoseconds paced_time(const Pace& pace, double bytes) {
  return pace.latency +
         std::chrono::nanoseconds(static_cast<int64_t>(bytes / pace.bytes_per_second * 1e9));
}

std::unique_ptr<Communicator> make_paced(std::unique_ptr<Communicator> inner, const Pace& pace) {
  return std::make_unique<PacedCommunicator>(std::move(inner), pace);
}

}  // namespace monograph::comm
