#pragma once

#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "comm/job_watch.h"
#include "comm/store.h"
#include "comm/store/frame.h"

namespace monograph::comm {

// What the store's server knows, and how it answers: values by key, who waits for which, which
// ranks are there and why the job stops. No sockets and no clock of its own. A connection is a
// number; messages go out through the function given.
class JobState {
 public:
  using Send = std::function<void(int connection, std::string frame)>;

  JobState(int world_size, std::string token, Send send);

  // The first message of a connection. False: it was refused, and the answer says why.
  bool greet(int connection, std::string_view body);
  // A later one. CommError when it makes no sense: the caller closes the connection.
  void handle(int connection, std::string_view body, Clock::time_point now);
  // The connection ended. A watching rank that did not say goodbye is gone.
  void close(int connection);
  // Ends what waited too long, and says when to come again.
  Clock::time_point expire(Clock::time_point now);

  void settle(const Failure& failure);
  const std::optional<Failure>& first_failure() const { return failure_; }
  // No rank that joined is still there.
  bool is_deserted() const { return watchers_.empty(); }
  int num_joined() const;

 private:
  struct Client {
    ClientKind kind;
    int rank;
  };
  struct Waiter {
    int connection;
    std::vector<std::string> keys;
    bool wants_value;
    Clock::time_point deadline;
    Milliseconds timeout;
  };
  struct Question {
    int connection;
    int64_t asker_number;
    int64_t number;
    std::vector<RankReport> reports;
    std::set<int> open;  // ranks that did not answer yet
    Clock::time_point deadline;
  };

  std::string refusal(FrameReader& hello, Client* client) const;
  void handle_request(int connection, FrameReader& message, Clock::time_point now);
  void handle_watch(int connection, int rank, FrameReader& message, Clock::time_point now);
  void reply(int connection, Reply status, std::string_view text);
  void answer_waiter(const Waiter& waiter);
  std::vector<std::string> missing(const Waiter& waiter) const;
  void store(std::string key, std::string value);
  void ask(int connection, FrameReader& message, Clock::time_point now);
  void answer(int rank, const RankReport& report, int64_t number);
  void finish(const Question& question);
  void end_rank(int rank, RankReport::State state);

  const std::string token_;
  const Send send_;
  std::map<std::string, std::string, std::less<>> values_;
  std::map<int, Client> clients_;
  std::map<int, int> watchers_;  // rank -> its connection
  std::vector<RankReport::State> ranks_;
  std::list<Waiter> waiters_;
  std::list<Question> questions_;
  std::optional<Failure> failure_;
  int64_t num_questions_ = 0;
};

}  // namespace monograph::comm
