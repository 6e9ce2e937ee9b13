#include "comm/store/job_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace monograph::comm {
namespace {

using State = RankReport::State;

// Takes the same time wherever the first difference is.
bool equal_secrets(std::string_view a, std::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return difference == 0;
}

FrameWriter to_watch(ToWatch kind) {
  FrameWriter writer;
  writer.add(static_cast<int64_t>(kind));
  return writer;
}

}  // namespace

JobState::JobState(int world_size, std::string token, Send send)
    : token_(std::move(token)),
      send_(std::move(send)),
      ranks_(static_cast<size_t>(world_size), State::kNeverCame) {}

int JobState::num_joined() const {
  return static_cast<int>(ranks_.size() - static_cast<size_t>(std::count(
                                              ranks_.begin(), ranks_.end(), State::kNeverCame)));
}

std::string JobState::refusal(FrameReader& hello, Client* client) const {
  if (hello.text() != kProtocol) return "it is of another version of Monograph";
  if (!equal_secrets(hello.text(), token_)) {
    return "its MONOGRAPH_JOB_TOKEN is not the job's: set the same text on all hosts";
  }
  client->kind = static_cast<ClientKind>(hello.integer());
  const int64_t rank = hello.integer();
  const int64_t world_size = hello.integer();
  const auto size = static_cast<int64_t>(ranks_.size());
  if (world_size != size) {
    return fmt::format("its WORLD_SIZE is {}, the job's is {}", world_size, size);
  }
  if (rank < 0 || rank >= size) return fmt::format("its RANK {} is not in 0..{}", rank, size - 1);
  client->rank = static_cast<int>(rank);
  if (client->kind == ClientKind::kWatch &&
      ranks_[static_cast<size_t>(rank)] != State::kNeverCame) {
    return fmt::format("another process joined as rank {} before: give each process its own RANK",
                       rank);
  }
  return {};
}

bool JobState::greet(int connection, std::string_view body) {
  FrameReader hello(body);
  Client client = {};
  const std::string problem = refusal(hello, &client);
  send_(connection, FrameWriter().add(int64_t{!problem.empty()}).add(problem).finish());
  if (!problem.empty()) return false;
  clients_[connection] = client;
  if (client.kind == ClientKind::kWatch) {
    ranks_[static_cast<size_t>(client.rank)] = State::kAlive;
    watchers_[client.rank] = connection;
    if (failure_) send_(connection, to_watch(ToWatch::kFailure).add(*failure_).finish());
  }
  return true;
}

void JobState::handle(int connection, std::string_view body, Clock::time_point now) {
  FrameReader message(body);
  const Client client = clients_.at(connection);
  if (client.kind == ClientKind::kWatch) return handle_watch(connection, client.rank, message, now);
  handle_request(connection, message, now);
}

void JobState::reply(int connection, Reply status, std::string_view text) {
  send_(connection, FrameWriter().add(static_cast<int64_t>(status)).add(text).finish());
}

void JobState::handle_request(int connection, FrameReader& message, Clock::time_point now) {
  const auto kind = static_cast<Request>(message.integer());
  if (kind == Request::kGet || kind == Request::kWait) {
    Waiter waiter = {connection, {}, kind == Request::kGet, now, Milliseconds(message.integer())};
    waiter.deadline = now + waiter.timeout;
    for (int64_t left = message.integer(); left > 0; --left) {
      waiter.keys.emplace_back(message.text());
    }
    if (missing(waiter).empty()) return answer_waiter(waiter);
    if (failure_) return reply(connection, Reply::kJobFailed, failure_->reason);
    waiters_.push_back(std::move(waiter));
    return;
  }
  std::string key(message.text());
  if (kind == Request::kSet) {
    store(std::move(key), std::string(message.text()));
    reply(connection, Reply::kOk, "");
  } else if (kind == Request::kAdd) {
    const std::string& old = values_[key];
    int64_t sum = 0;
    std::from_chars(old.data(), old.data() + old.size(), sum);
    const std::string value = std::to_string(sum + message.integer());
    store(std::move(key), value);
    reply(connection, Reply::kOk, value);
  } else if (kind == Request::kErase) {
    reply(connection, Reply::kOk, values_.erase(key) == 1 ? "1" : "0");
  } else {
    throw CommError("an unknown request");
  }
}

std::vector<std::string> JobState::missing(const Waiter& waiter) const {
  std::vector<std::string> keys;
  for (const std::string& key : waiter.keys) {
    if (!values_.contains(key)) keys.push_back(key);
  }
  return keys;
}

void JobState::answer_waiter(const Waiter& waiter) {
  reply(waiter.connection, Reply::kOk, waiter.wants_value ? values_.at(waiter.keys[0]) : "");
}

void JobState::store(std::string key, std::string value) {
  values_.insert_or_assign(std::move(key), std::move(value));
  std::erase_if(waiters_, [&](const Waiter& waiter) {
    if (!missing(waiter).empty()) return false;
    answer_waiter(waiter);
    return true;
  });
}

void JobState::handle_watch(int connection, int rank, FrameReader& message, Clock::time_point now) {
  switch (static_cast<ToServer>(message.integer())) {
    case ToServer::kPong: {
      const int64_t id = message.integer();
      return answer(rank, {State::kAlive, message.progress()}, id);
    }
    case ToServer::kAsk:
      return ask(connection, message, now);
    case ToServer::kSettle:
      return settle(message.failure());
    case ToServer::kBye: {
      const std::string problem(message.text());
      if (!problem.empty()) settle({{rank}, fmt::format("rank {} failed: {}", rank, problem)});
      return end_rank(rank, State::kLeft);
    }
  }
  throw CommError("an unknown message");
}

// Asks every rank that is there. One that is stopped does not answer: the question's deadline ends
// the wait for it.
void JobState::ask(int connection, FrameReader& message, Clock::time_point now) {
  Question question = {connection, message.integer(), ++num_questions_, {}, {}, now};
  question.deadline = now + Milliseconds(message.integer());
  const std::string_view group = message.text();
  for (const State state : ranks_) question.reports.push_back({state, std::nullopt});
  for (const auto& [rank, watcher] : watchers_) {
    question.open.insert(rank);
    question.reports[static_cast<size_t>(rank)].state = State::kSilent;
    send_(watcher, to_watch(ToWatch::kPing).add(question.number).add(group).finish());
  }
  questions_.push_back(std::move(question));
}

// number 0: to all questions, since the rank ended.
void JobState::answer(int rank, const RankReport& report, int64_t number) {
  std::erase_if(questions_, [&](Question& question) {
    if (number != 0 && question.number != number) return false;
    if (question.open.erase(rank) == 0) return false;
    question.reports[static_cast<size_t>(rank)] = report;
    if (question.open.empty()) finish(question);
    return question.open.empty();
  });
}

void JobState::finish(const Question& question) {
  FrameWriter writer = to_watch(ToWatch::kReports);
  writer.add(question.asker_number).add(static_cast<int64_t>(question.reports.size()));
  for (const RankReport& report : question.reports) {
    writer.add(static_cast<int64_t>(report.state)).add(report.progress);
  }
  send_(question.connection, writer.finish());
}

void JobState::settle(const Failure& failure) {
  if (!failure_) {
    failure_ = failure;
    for (const Waiter& waiter : waiters_) {
      reply(waiter.connection, Reply::kJobFailed, failure_->reason);
    }
    waiters_.clear();
  }
  // Also for a second one: who reported it waits to hear what the first was.
  for (const auto& [rank, watcher] : watchers_) {
    send_(watcher, to_watch(ToWatch::kFailure).add(*failure_).finish());
  }
}

void JobState::end_rank(int rank, State state) {
  ranks_[static_cast<size_t>(rank)] = state;
  watchers_.erase(rank);
  answer(rank, {state, std::nullopt}, 0);
  if (state == State::kLeft) {
    for (const auto& [other, watcher] : watchers_) {
      send_(watcher, to_watch(ToWatch::kLeft).add(int64_t{rank}).finish());
    }
  } else {
    settle(
        {{rank}, fmt::format("rank {} is gone: its process ended or its host lost contact", rank)});
  }
}

void JobState::close(int connection) {
  std::erase_if(waiters_, [&](const Waiter& waiter) { return waiter.connection == connection; });
  std::erase_if(questions_, [&](const Question& q) { return q.connection == connection; });
  const auto client = clients_.find(connection);
  if (client == clients_.end()) return;
  const int rank = client->second.rank;
  const bool is_watch = client->second.kind == ClientKind::kWatch;
  clients_.erase(client);
  if (is_watch && watchers_.contains(rank)) end_rank(rank, State::kGone);
}

Clock::time_point JobState::expire(Clock::time_point now) {
  std::erase_if(waiters_, [&](const Waiter& waiter) {
    if (waiter.deadline > now) return false;
    reply(waiter.connection, Reply::kTimeout,
          fmt::format("{} did not come within {} ms", fmt::join(missing(waiter), ", "),
                      waiter.timeout.count()));
    return true;
  });
  std::erase_if(questions_, [&](const Question& question) {
    if (question.deadline > now) return false;
    finish(question);
    return true;
  });
  Clock::time_point next = now + std::chrono::seconds(3600);
  for (const Waiter& waiter : waiters_) next = std::min(next, waiter.deadline);
  for (const Question& question : questions_) next = std::min(next, question.deadline);
  return next;
}

}  // namespace monograph::comm
