#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/store/frame.h"
#include "comm/store/store_server.h"
#include "comm/store/store_watch.h"
#include "comm/store/tcp_store.h"

namespace monograph::comm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Milliseconds kLong{60'000};

StoreAddress address_of(const StoreServer& server, int rank, int world_size = 2) {
  return {{"127.0.0.1", server.port()}, "secret", rank, world_size};
}

TEST(StoreTest, KeepsValues) {
  const StoreServer server({"127.0.0.1", 0}, 2, "secret");
  TcpStore store(address_of(server, 0), kLong);
  TcpStore other(address_of(server, 1), kLong);
  store.set("a", "one");
  EXPECT_EQ(other.get("a", kLong), "one");
  other.set("a", std::string("t\0wo", 4));
  EXPECT_EQ(store.get("a", kLong), std::string("t\0wo", 4));
  EXPECT_EQ(store.add("n", 5), 5);
  EXPECT_EQ(other.add("n", -2), 3);
  EXPECT_EQ(other.get("n", kLong), "3");
  EXPECT_TRUE(store.erase("a"));
  EXPECT_FALSE(store.erase("a"));
  EXPECT_THAT([&] { store.get("a", Milliseconds(1)); },
              ThrowsMessage<CommError>("[store] a did not come within 1 ms"));
  const std::string large(5 << 20, 'x');
  store.set("large", large);
  EXPECT_EQ(other.get("large", kLong), large);
}

TEST(StoreTest, WaitsForAllKeys) {
  const StoreServer server({"127.0.0.1", 0}, 2, "secret");
  TcpStore store(address_of(server, 0), kLong);
  std::thread setter([&] {
    TcpStore other(address_of(server, 1), kLong);
    other.set("b", "");
    other.set("a", "");
  });
  const std::vector<std::string> keys = {"a", "b"};
  store.wait(keys, kLong);
  setter.join();
  const std::vector<std::string> more = {"a", "c", "d"};
  EXPECT_THAT([&] { store.wait(more, Milliseconds(1)); },
              ThrowsMessage<CommError>("[store] c, d did not come within 1 ms"));
}

TEST(StoreTest, CountsFromManyThreads) {
  const StoreServer server({"127.0.0.1", 0}, 4, "secret");
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      TcpStore store(address_of(server, rank, 4), kLong);
      for (int i = 0; i < 100; ++i) store.add("n", 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  TcpStore store(address_of(server, 0, 4), kLong);
  EXPECT_EQ(store.get("n", kLong), "400");
}

TEST(StoreTest, ClosesWhatDoesNotSpeakTheProtocol) {
  const StoreServer server({"127.0.0.1", 0}, 2, "secret");
  for (const std::string& bytes : {std::string("GET / HTTP/1.0\r\n\r\n"), std::string(8, '\0'),
                                   std::string("\x04\0\0\0abcd", 8)}) {
    const Socket socket = connect_to({"127.0.0.1", server.port()}, Clock::now() + kLong);
    send_frame(socket, bytes, Clock::now() + kLong);
    std::string received;
    // Either an answer that refuses, or nothing; then the end.
    EXPECT_THROW(
        {
          receive_frame(socket, &received, Clock::now() + kLong);
          receive_frame(socket, &received, Clock::now() + kLong);
        },
        CommError);
  }
  TcpStore store(address_of(server, 0), kLong);
  store.set("still", "serves");
}

TEST(StoreTest, NeedsASecret) {
  EXPECT_THAT(
      [] {
        StoreServer({"127.0.0.1", 0}, 2, "");
      },
      ThrowsMessage<UserError>(HasSubstr("set MONOGRAPH_JOB_TOKEN")));
}

TEST(StoreTest, ReadsEndpoints) {
  EXPECT_EQ(parse_endpoint("10.0.0.1:29500").port, 29500);
  for (const char* text : {"10.0.0.1", ":1", "a:", "a:b", "a:70000", "a:0"}) {
    EXPECT_THROW(parse_endpoint(text), UserError) << text;
  }
}

class WatchTest : public testing::Test {
 protected:
  struct Rank {
    std::shared_ptr<FlightRecorder> recorder;
    std::unique_ptr<StoreWatch> watch;
    std::atomic<int> num_failures = 0;
  };

  void SetUp() override {
    for (int rank = 0; rank < 3; ++rank) {
      Rank& r = ranks_[rank];
      r.recorder = std::make_shared<FlightRecorder>(rank);
      r.watch = std::make_unique<StoreWatch>(address_of(server_, rank, 3), r.recorder,
                                             Milliseconds(4000), [&r] { ++r.num_failures; });
    }
  }

  const Group group_ = {"all", {0, 1, 2}, 0};
  Call call() const {
    Call made = make_call(Operation::kBarrier, 0, ElementType::kU8, "step");
    made.sequence = 4;
    return made;
  }

  StoreServer server_{{"127.0.0.1", 0}, 3, "secret"};
  Rank ranks_[3];
};

TEST_F(WatchTest, NamesTheRankThatIsBehindAndTellsAll) {
  ranks_[0].recorder->begin("all", call());
  ranks_[2].recorder->begin("all", call());
  const Failure failure = ranks_[0].watch->settle(group_, call(), {"late", {}});
  EXPECT_THAT(failure.at_fault, ElementsAre(1));
  EXPECT_THAT(failure.reason, HasSubstr("rank 1 is alive but did not call it"));
  while (!ranks_[1].watch->has_failed() || !ranks_[2].watch->has_failed()) {
    std::this_thread::yield();
  }
  // The first failure holds, whatever a rank finds later.
  EXPECT_EQ(ranks_[2].watch->settle(group_, call(), {"late", {}}).reason, failure.reason);
  EXPECT_EQ(server_.first_failure()->reason, failure.reason);
}

TEST_F(WatchTest, TellsLeavingFromFailing) {
  ranks_[1].watch->leave("");
  while (!ranks_[0].watch->has_left(1)) std::this_thread::yield();
  EXPECT_FALSE(ranks_[0].watch->has_failed());
  ranks_[2].watch->leave("no disk");
  while (!ranks_[0].watch->has_failed()) std::this_thread::yield();
  const Failure failure = ranks_[0].watch->settle(group_, call(), {"late", {}});
  EXPECT_EQ(failure.reason, "rank 2 failed: no disk");
  EXPECT_THAT(failure.at_fault, ElementsAre(2));
}

TEST_F(WatchTest, EndsWaitsOfTheStore) {
  TcpStore store(address_of(server_, 0, 3), kLong);
  std::thread reporter([&] { server_.settle({{1}, "rank 1 is planted to fail"}); });
  EXPECT_THAT([&] { store.get("never", kLong); },
              ThrowsMessage<CommError>("[store] the job failed: rank 1 is planted to fail"));
  reporter.join();
}

TEST_F(WatchTest, RefusesASecondProcessOfARank) {
  EXPECT_THAT(
      [&] { StoreWatch(address_of(server_, 1, 3), ranks_[1].recorder, Milliseconds(4000), [] {}); },
      ThrowsMessage<UserError>(HasSubstr("another process joined as rank 1")));
}

}  // namespace
}  // namespace monograph::comm
