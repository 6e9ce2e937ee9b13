#include "frontend/session/agreement.h"

#include <gmock/gmock.h>

#include <bit>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "comm/threads/thread_world.h"

namespace monograph::session {
namespace {

using ::testing::HasSubstr;

Statement statement(const std::string& version) {
  return {.facts = {{"oneDNN", version}, {"graph hash", "1"}}, .graph = "graph"};
}

TEST(AgreementTest, EqualStatementsPassOnAnyNumberOfRanks) {
  for (const int size : {1, 2, 3, 4, 7}) {
    comm::run_ranks(size, [&](comm::World& world) {
      for (int i = 0; i < 2; ++i) {
        agree(*world.store, world.rank, size, "step", statement("2.6"), comm::Milliseconds(20'000));
      }
    });
  }
}

TEST(AgreementTest, AVersionThatDiffersIsNamedOnEveryRank) {
  comm::run_ranks(7, [&](comm::World& world) {
    const bool is_odd = world.rank == 3 || world.rank == 6;
    try {
      agree(*world.store, world.rank, 7, "step", statement(is_odd ? "3.5" : "2.6"),
            comm::Milliseconds(20'000));
      ADD_FAILURE() << "no error";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("ranks 0, 1, 2, 4, 5 against ranks 3, 6:\n"
                                          "  oneDNN: 2.6 against 3.5"));
    }
  });
}

TEST(AgreementTest, ARankThatSaysNothingIsNamed) {
  comm::run_ranks(2, [&](comm::World& world) {
    if (world.rank == 1) return;
    try {
      agree(*world.store, world.rank, 2, "step", statement("2.6"), comm::Milliseconds(50));
      ADD_FAILURE() << "no error";
    } catch (const CommError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 0 waited for rank 1"));
    }
  });
}

// What many ranks share: each value with the round in which it was there.
struct SharedValues {
  struct Entry {
    std::string value;
    int round = -1;  // not there
    std::condition_variable changed;
  };
  std::mutex mutex;
  std::map<std::string, Entry, std::less<>> entries;
};

// One rank's way to them: counts its messages, and how many rounds of them, one after the other,
// stand behind what it knows.
class CountingStore : public comm::Store {
 public:
  explicit CountingStore(SharedValues& shared) : shared_(shared) {}
  void set(std::string_view key, std::string_view value) override {
    const std::scoped_lock lock(shared_.mutex);
    ++num_messages;
    SharedValues::Entry& entry = shared_.entries[std::string(key)];
    entry.value = value;
    entry.round = ++num_rounds;
    entry.changed.notify_all();
  }
  std::string get(std::string_view key, comm::Milliseconds timeout) override {
    std::unique_lock lock(shared_.mutex);
    ++num_messages;
    SharedValues::Entry& entry = shared_.entries[std::string(key)];
    if (!entry.changed.wait_for(lock, timeout, [&] { return entry.round >= 0; })) {
      throw CommError(std::string(key) + " did not come");
    }
    num_rounds = std::max(num_rounds, entry.round);
    return entry.value;
  }
  int64_t add(std::string_view, int64_t) override {
    ++num_messages;
    ++num_rounds;
    return ++count_;  // keys of this rank alone
  }
  void wait(std::span<const std::string>, comm::Milliseconds) override { FAIL(); }
  bool erase(std::string_view) override {
    ++num_messages;
    return true;  // values are not used again
  }

  int num_messages = 0, num_rounds = 0;

 private:
  SharedValues& shared_;
  int64_t count_ = 0;
};

struct Traffic {
  int most_messages = 0, most_rounds = 0;  // of a rank
};

Traffic agree_on(int size) {
  SharedValues shared;
  std::vector<CountingStore> stores(size, CountingStore(shared));
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back([&, rank] {
        agree(stores[rank], rank, size, "step", statement("2.6"), comm::Milliseconds(60'000));
      });
    }
  }
  Traffic traffic;
  for (const CountingStore& store : stores) {
    traffic.most_messages = std::max(traffic.most_messages, store.num_messages);
    traffic.most_rounds = std::max(traffic.most_rounds, store.num_rounds);
  }
  return traffic;
}

TEST(AgreementTest, TakesAsManyRoundsAsTheTreeIsDeep) {
  for (const int size : {2, 16, 128, 1024}) {
    const Traffic traffic = agree_on(size);
    // One to count, one a level, the verdict.
    EXPECT_LE(traffic.most_rounds, 2 + std::bit_width(static_cast<unsigned>(size))) << size;
    EXPECT_LE(traffic.most_messages, 7) << size;
  }
}

}  // namespace
}  // namespace monograph::session
