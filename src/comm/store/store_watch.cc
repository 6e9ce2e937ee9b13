#include "comm/store/store_watch.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/error.h"

namespace monograph::comm {
namespace {

constexpr auto kForever = std::chrono::hours(24 * 365);

FrameWriter begin(ToServer kind) {
  FrameWriter writer;
  writer.add(static_cast<int64_t>(kind));
  return writer;
}

}  // namespace

StoreWatch::StoreWatch(const StoreAddress& address, std::shared_ptr<FlightRecorder> recorder,
                       Milliseconds timeout, std::function<void()> on_failure)
    : address_(address),
      recorder_(std::move(recorder)),
      grace_(grace_of(timeout)),
      on_failure_(std::move(on_failure)),
      has_left_(static_cast<size_t>(address.world_size)),
      socket_(join_store(address, ClientKind::kWatch, Clock::now() + timeout, &received_)) {
  thread_ = std::thread([this] { listen(); });
}

StoreWatch::~StoreWatch() {
  leave("");
  shutdown(socket_.fd(), SHUT_RDWR);
  thread_.join();
}

void StoreWatch::leave(const std::string& problem) {
  std::vector<std::shared_ptr<void>> kept;
  {
    const std::scoped_lock lock(mutex_);
    if (is_leaving_) return;
    is_leaving_ = true;
    kept.swap(kept_);
  }
  send(begin(ToServer::kBye).add(problem));
}

void StoreWatch::keep(std::shared_ptr<void> connections) {
  const std::scoped_lock lock(mutex_);
  if (!is_leaving_) kept_.push_back(std::move(connections));
}

bool StoreWatch::send(FrameWriter& message) {
  const std::scoped_lock lock(send_mutex_);
  try {
    send_frame(socket_, message.finish(), Clock::now() + grace_);
  } catch (const CommError&) {
    return false;  // the thread that listens finds the same and says so
  }
  return true;
}

void StoreWatch::listen() {
  try {
    for (;;) handle(receive_frame(socket_, &received_, Clock::now() + kForever));
  } catch (const CommError& error) {
    {
      const std::scoped_lock lock(mutex_);
      if (is_leaving_) return;
    }
    set_failure(lost_store(error.what()));
  }
}

void StoreWatch::handle(std::string_view body) {
  FrameReader message(body);
  switch (static_cast<ToWatch>(message.integer())) {
    case ToWatch::kPing: {
      FrameWriter pong = begin(ToServer::kPong).add(message.integer());
      send(pong.add(recorder_->progress(std::string(message.text()))));
      return;
    }
    case ToWatch::kReports: {
      const std::scoped_lock lock(mutex_);
      answered_question_ = message.integer();
      reports_.clear();
      for (int64_t left = message.integer(); left > 0; --left) {
        const auto state = static_cast<RankReport::State>(message.integer());
        reports_.push_back({state, message.progress()});
      }
      return changed_.notify_all();
    }
    case ToWatch::kFailure:
      return set_failure(message.failure());
    case ToWatch::kLeft: {
      has_left_.at(static_cast<size_t>(message.integer())) = true;
      return;
    }
  }
}

void StoreWatch::set_failure(const Failure& failure) {
  {
    const std::scoped_lock lock(mutex_);
    if (failure_) return;
    failure_ = failure;
  }
  has_failed_ = true;
  changed_.notify_all();
  on_failure_();
}

// Nothing when the server does not answer, or when the job's first failure came meanwhile.
std::optional<std::vector<RankReport>> StoreWatch::ask(const Group& group) {
  std::unique_lock lock(mutex_);
  const int64_t number = ++num_questions_;
  lock.unlock();
  // The server waits for the ranks for less than we wait for the server.
  send(begin(ToServer::kAsk).add(number).add((grace_ * 2 / 5).count()).add(group.name));
  lock.lock();
  changed_.wait_for(lock, grace_,
                    [&] { return answered_question_ == number || failure_.has_value(); });
  if (answered_question_ != number) return std::nullopt;
  return reports_;
}

Failure StoreWatch::settle(const Group& group, const Call& call, const Trouble& trouble) {
  if (auto first = first_failure()) return *first;
  auto reports = ask(group);
  // Two ranks that differ do not say who is wrong: others are about to come. And a connection that
  // broke while all seem well is one of a rank that is about to say why it goes.
  const auto is_unclear = [&] {
    if (!reports || has_failed()) return false;
    const auto is_alive = [&](int rank) {
      return (*reports)[static_cast<size_t>(rank)].state == RankReport::State::kAlive;
    };
    const auto is_behind = [&](int rank) {
      const auto& progress = (*reports)[static_cast<size_t>(rank)].progress;
      return is_alive(rank) && (!progress || progress->call.sequence < call.sequence);
    };
    const auto& ranks = group.ranks;
    return (trouble.is_broken && std::all_of(ranks.begin(), ranks.end(), is_alive)) ||
           (trouble.is_mismatch && std::any_of(ranks.begin(), ranks.end(), is_behind));
  };
  const auto give_up = Clock::now() + grace_ * 3 / 8;
  while (is_unclear() && Clock::now() < give_up) {
    std::this_thread::sleep_for(Milliseconds(5));
    reports = ask(group);
  }
  if (auto first = first_failure()) return *first;
  if (!reports) {
    set_failure(lost_store("it does not answer"));
    return *first_failure();
  }
  const Failure failure = judge(group, call, trouble, *reports);
  report(failure);
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, grace_ / 8, [&] { return failure_.has_value(); });
  return failure_.value_or(failure);
}

void StoreWatch::report(const Failure& failure) {
  send(begin(ToServer::kSettle).add(failure));
}

Failure StoreWatch::lost_store(const std::string& problem) const {
  const int rank = address_.serving_rank;
  const std::string host =
      rank >= 0 ? fmt::format("rank {}, which serves it,", rank) : "the launcher, which serves it,";
  return {rank >= 0 ? std::vector<int>{rank} : std::vector<int>{},
          fmt::format("the job's store at {} is lost: {} ended, is stopped or cannot be reached "
                      "({})",
                      address_.endpoint.str(), host, problem)};
}

std::optional<Failure> StoreWatch::first_failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

}  // namespace monograph::comm
