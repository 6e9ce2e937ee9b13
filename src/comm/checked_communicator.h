#pragma once

#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/call.h"
#include "comm/communicator.h"
#include "comm/job.h"

namespace monograph::comm {

// Thrown by a backend's perform().
struct CallTrouble : std::exception {
  explicit CallTrouble(Trouble t) : trouble(std::move(t)) {}
  const char* what() const noexcept override { return trouble.what.c_str(); }
  Trouble trouble;
};

// What all backends do alike: check arguments, number and record each call, and turn what a backend
// noticed into a CommError that names the ranks at fault.
class CheckedCommunicator : public Communicator {
 public:
  int rank() const override { return group_.index; }
  int size() const override { return group_.size(); }
  void all_reduce(void* data, int64_t count, ElementType type, ReduceOp op,
                  std::string_view label) override;
  void broadcast(void* data, int64_t count, ElementType type, int root,
                 std::string_view label) override;
  void all_gather(const void* mine, void* all, int64_t count, ElementType type,
                  std::string_view label) override;
  void reduce_scatter(const void* all, void* mine, int64_t count, ElementType type, ReduceOp op,
                      std::string_view label) override;
  void all_to_all(const void* from, void* to, int64_t count, ElementType type,
                  std::string_view label) override;
  void send(const void* data, int64_t count, ElementType type, int to,
            std::string_view label) override;
  void recv(void* data, int64_t count, ElementType type, int from, std::string_view label) override;
  void barrier(std::string_view label) override;

 protected:
  CheckedCommunicator(Group group, Job job);

  // Does the call: compares it with the other ranks' and moves the data. `from` and `to` are as the
  // call has them, the same for all_reduce and broadcast. Throws CallTrouble; none of its waits may
  // outlast the deadline. The group has two ranks or more.
  virtual void perform(const Call& call, const void* from, void* to,
                       Clock::time_point deadline) = 0;
  // Called once when a call failed: whatever keeps peers waiting for this rank ends here.
  virtual void abandon() {}

  const Group& group() const { return group_; }
  JobWatch& watch() const { return *job_.watch; }

 private:
  void run(Call call, const void* from, void* to);
  [[noreturn]] void fail(const Call& call, const Trouble& trouble);

  const Group group_;
  const Job job_;
  int64_t num_calls_ = 0;
  std::map<std::pair<Operation, int>, int64_t> num_pairwise_calls_;
  std::exception_ptr failed_;
};

}  // namespace monograph::comm
