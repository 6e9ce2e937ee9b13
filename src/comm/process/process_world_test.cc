#include "comm/process/process_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "comm/checked_communicator.h"
#include "comm/store/store_server.h"

namespace monograph::comm {
namespace {

using testing::HasSubstr;

// What a rank's process did: its exit status (128 + signal), and what it said.
struct Outcome {
  int status = 0;
  std::string text;
};

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(count));
  }
  return text;
}

// Each test process forks its ranks before it starts a thread.
class ProcessRanks {
 public:
  using Body = std::function<std::string(World&)>;

  // Rank 0 serves the store, as without a launcher.
  ProcessRanks(int size, ProcessWorldOptions options, const Body& body) {
    options.store.endpoint = {"127.0.0.1", port_of(listen_on({"127.0.0.1", 0}))};
    options.store.token = make_token();
    options.store.world_size = options.local_size = size;
    options.store.serving_rank = 0;
    options.log = [](const std::string&) {};
    for (int rank = 0; rank < size; ++rank) {
      options.store.rank = options.local_rank = rank;
      start(options, body);
    }
  }
  ~ProcessRanks() {
    for (const Child& child : children_) {
      if (!child.is_reaped) kill(child.pid, SIGKILL);
    }
    for (size_t rank = 0; rank < children_.size(); ++rank) wait(static_cast<int>(rank));
  }

  pid_t pid(int rank) const { return children_[static_cast<size_t>(rank)].pid; }

  Outcome wait(int rank) {
    Child& child = children_[static_cast<size_t>(rank)];
    if (child.is_reaped) return child.outcome;
    child.outcome.text = read_all(child.output.fd());
    int status = 0;
    waitpid(child.pid, &status, 0);
    child.outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    child.is_reaped = true;
    return child.outcome;
  }

 private:
  struct Child {
    pid_t pid;
    Socket output;
    bool is_reaped = false;
    Outcome outcome;
  };

  void start(const ProcessWorldOptions& options, const Body& body) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      close(ends[0]);
      int status = 0;
      std::string text;
      try {
        const auto world = join_world(options);
        text = body(*world);
      } catch (const CommError& error) {
        status = 75;
        text = error.what();
      } catch (const std::exception& error) {
        status = 1;
        text = error.what();
      }
      (void)!write(ends[1], text.data(), text.size());
      _exit(status);
    }
    close(ends[1]);
    children_.push_back({pid, Socket(ends[0]), false, {}});
  }

  std::vector<Child> children_;
};

ProcessWorldOptions options_for(Transport transport, int timeout_ms = 60'000) {
  ProcessWorldOptions options;
  options.transport = transport;
  options.timeout = Milliseconds(timeout_ms);
  return options;
}

std::vector<float> random_values(int64_t count, int rank) {
  std::mt19937 generator(static_cast<uint32_t>(rank) + 5);
  std::uniform_int_distribution<int> whole(-1000, 1000);  // sums are exact in any order
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(whole(generator));
  return values;
}

std::vector<float> sum_of_ranks(int64_t count, int size) {
  std::vector<float> sum(static_cast<size_t>(count));
  for (int rank = 0; rank < size; ++rank) {
    const auto values = random_values(count, rank);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  return sum;
}

// Does every kind of call; says what was wrong.
std::string use_all(World& world) {
  const auto group = world.all("all");
  const int size = world.size;
  const int rank = world.rank;
  const auto count = int64_t{300'000};
  const auto expected = sum_of_ranks(count, size);
  std::ostringstream wrong;

  std::vector<float> values = random_values(count, rank);
  group->all_reduce(values.data(), count, ElementType::kF32, ReduceOp::kSum, "private");
  if (values != expected) wrong << "all_reduce of private memory; ";

  const auto memory = group->allocate(count * 4 + 4096);
  float* mapped = static_cast<float*>(memory.get()) + 100;
  const auto own = random_values(count, rank);
  std::copy(own.begin(), own.end(), mapped);
  group->all_reduce(mapped, count, ElementType::kF32, ReduceOp::kSum, "mapped");
  if (!std::equal(expected.begin(), expected.end(), mapped)) wrong << "all_reduce of mapped; ";

  float* mixed = rank == 0 ? mapped : values.data();
  std::copy(own.begin(), own.end(), mixed);
  group->all_reduce(mixed, count, ElementType::kF32, ReduceOp::kSum, "mixed");
  if (!std::equal(expected.begin(), expected.end(), mixed)) wrong << "all_reduce of both; ";

  const auto block = int64_t{70'001};
  std::vector<float> all(static_cast<size_t>(block * size));
  group->all_gather(own.data(), all.data(), block, ElementType::kF32, "gather");
  for (int r = 0; r < size; ++r) {
    const auto theirs = random_values(block, r);
    if (!std::equal(theirs.begin(), theirs.end(), all.begin() + r * block)) wrong << "all_gather; ";
  }
  std::vector<float> mine(static_cast<size_t>(block));
  for (int r = 0; r < size; ++r) {
    for (int64_t i = 0; i < block; ++i) all[static_cast<size_t>(r * block + i)] = float(r + rank);
  }
  group->reduce_scatter(all.data(), mine.data(), block, ElementType::kF32, ReduceOp::kSum, "rs");
  const float scattered = static_cast<float>(size * rank + size * (size - 1) / 2);
  if (mine != std::vector<float>(static_cast<size_t>(block), scattered))
    wrong << "reduce_scatter; ";

  std::vector<float> from(static_cast<size_t>(block * size), static_cast<float>(rank));
  group->all_to_all(from.data(), all.data(), block, ElementType::kF32, "exchange");
  for (int r = 0; r < size; ++r) {
    if (all[static_cast<size_t>(r * block)] != float(r)) wrong << "all_to_all; ";
    if (all[static_cast<size_t>((r + 1) * block - 1)] != float(r)) wrong << "all_to_all; ";
  }
  std::vector<double> root(1000, rank == size - 1 ? 1.5 : 0.0);
  group->broadcast(root.data(), 1000, ElementType::kF64, size - 1, "broadcast");
  if (root != std::vector<double>(1000, 1.5)) wrong << "broadcast; ";

  const int next = (rank + 1) % size;
  const int previous = (rank + size - 1) % size;
  if (rank == 0) group->send(own.data(), count, ElementType::kF32, next, "ring");
  group->recv(values.data(), count, ElementType::kF32, previous, "ring");
  if (rank != 0) group->send(own.data(), count, ElementType::kF32, next, "ring");
  if (values != random_values(count, previous)) wrong << "send and recv; ";
  group->barrier("end");
  return wrong.str() + group->name();
}

struct Case {
  Transport transport;
  int size;
};

class ProcessWorldTest : public testing::TestWithParam<Case> {};

TEST_P(ProcessWorldTest, DoesEveryCall) {
  ProcessRanks ranks(GetParam().size, options_for(GetParam().transport), use_all);
  for (int rank = 0; rank < GetParam().size; ++rank) {
    const Outcome outcome = ranks.wait(rank);
    const bool is_gloo = GetParam().transport == Transport::kGloo;
    EXPECT_EQ(outcome.text, is_gloo ? "gloo" : "shared memory");
    EXPECT_EQ(outcome.status, 0);
  }
}

TEST_P(ProcessWorldTest, NamesTheRankThatIsKilled) {
  const int victim = GetParam().size - 1;
  ProcessRanks ranks(GetParam().size, options_for(GetParam().transport), [&](World& world) {
    const auto group = world.all("all");
    std::vector<float> values(1000);
    for (int step = 0;; ++step) {
      if (step == 20 && world.rank == victim) raise(SIGKILL);
      group->all_reduce(values.data(), 1000, ElementType::kF32, ReduceOp::kSum, "gradients");
    }
    return std::string();
  });
  for (int rank = 0; rank < victim; ++rank) {
    const Outcome outcome = ranks.wait(rank);
    EXPECT_EQ(outcome.status, 75);
    EXPECT_THAT(outcome.text, HasSubstr("[all_reduce] #21 of group 'all' failed in rank"));
    EXPECT_THAT(outcome.text, HasSubstr("'gradients'"));
    EXPECT_THAT(outcome.text, HasSubstr("rank " + std::to_string(victim) + " is gone"));
  }
  EXPECT_EQ(ranks.wait(victim).status, 128 + SIGKILL);
}

TEST_P(ProcessWorldTest, NamesTheRankThatIsStopped) {
  const int victim = 1;
  ProcessRanks ranks(GetParam().size, options_for(GetParam().transport, 2000), [&](World& world) {
    const auto group = world.all("all");
    float value = 0;
    for (int step = 0;; ++step) {
      if (step == 20 && world.rank == victim) raise(SIGSTOP);
      group->all_reduce(&value, 1, ElementType::kF32, ReduceOp::kSum, "loss");
    }
    return std::string();
  });
  for (int rank = 0; rank < GetParam().size; ++rank) {
    if (rank == victim) continue;
    const Outcome outcome = ranks.wait(rank);
    EXPECT_EQ(outcome.status, 75);
    EXPECT_THAT(outcome.text, HasSubstr("#21"));
    EXPECT_THAT(outcome.text, HasSubstr("rank 1 is not answering: stopped"));
  }
}

TEST_P(ProcessWorldTest, NamesTheCallThatDiffers) {
  ProcessRanks ranks(GetParam().size, options_for(GetParam().transport), [&](World& world) {
    const auto group = world.all("all");
    std::vector<float> values(100);
    const auto op = world.rank == 1 ? ReduceOp::kMax : ReduceOp::kSum;
    group->all_reduce(values.data(), 100, ElementType::kF32, op, "bucket0");
    return std::string();
  });
  for (int rank = 0; rank < GetParam().size; ++rank) {
    const Outcome outcome = ranks.wait(rank);
    EXPECT_EQ(outcome.status, 75);
    EXPECT_THAT(outcome.text, HasSubstr("rank 1 called all_reduce max of 100 f32 'bucket0'"));
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, ProcessWorldTest,
                         testing::Values(Case{Transport::kSharedMemory, 2},
                                         Case{Transport::kSharedMemory, 4},
                                         Case{Transport::kGloo, 2}, Case{Transport::kGloo, 4}),
                         [](const auto& made) {
                           const bool is_gloo = made.param.transport == Transport::kGloo;
                           return (is_gloo ? "Gloo" : "SharedMemory") +
                                  std::to_string(made.param.size);
                         });

TEST(ProcessWorldFailureTest, NamesTheRankThatLeaves) {
  ProcessRanks ranks(3, options_for(Transport::kSharedMemory), [](World& world) {
    const auto group = world.all("all");
    group->barrier("first");
    if (world.rank == 2) return std::string("done");
    group->barrier("second");
    return std::string();
  });
  EXPECT_EQ(ranks.wait(2).text, "done");
  EXPECT_THAT(ranks.wait(0).text, HasSubstr("rank 2 left the job without this call"));
  EXPECT_THAT(ranks.wait(1).text, HasSubstr("rank 2 left the job without this call"));
}

TEST(ProcessWorldFailureTest, NamesTheRankThatThrows) {
  ProcessRanks ranks(2, options_for(Transport::kGloo), [](World& world) {
    const auto group = world.all("all");
    if (world.rank == 1) throw_user_error("no data");
    group->barrier("step");
    return std::string();
  });
  EXPECT_EQ(ranks.wait(1).text, "no data");
  EXPECT_THAT(ranks.wait(0).text, HasSubstr("rank 1 failed: it ended by an exception"))
      << "status " << ranks.wait(0).status;
}

// Its connections end late enough for the others to have asked, and to have given up asking.
TEST(ProcessWorldFailureTest, NamesTheRankThatThrowsAndUnwindsSlowly) {
  struct SlowToEnd {
    bool is_slow;
    ~SlowToEnd() {
      if (is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(1600));
    }
  };
  ProcessRanks ranks(2, options_for(Transport::kGloo, 6000), [](World& world) {
    const SlowToEnd last = {world.rank == 1};
    const auto group = world.all("all");
    if (world.rank == 1) throw_user_error("no data");
    group->barrier("step");
    return std::string();
  });
  EXPECT_EQ(ranks.wait(1).text, "no data");
  EXPECT_THAT(ranks.wait(0).text, HasSubstr("rank 1 failed: it ended by an exception"));
}

TEST(ProcessWorldFailureTest, SaysThatTheServingRankIsGone) {
  ProcessRanks ranks(3, options_for(Transport::kSharedMemory), [](World& world) {
    const auto group = world.all("all");
    if (world.rank == 0) raise(SIGKILL);
    group->barrier("step");
    return std::string();
  });
  for (int rank : {1, 2}) {
    EXPECT_EQ(ranks.wait(rank).status, 75);
    EXPECT_THAT(ranks.wait(rank).text, HasSubstr("rank 0, which serves it, ended"));
  }
}

TEST(ProcessWorldFailureTest, WritesFlightRecords) {
  const std::string directory = testing::TempDir() + "flight" + std::to_string(getpid());
  ProcessWorldOptions options = options_for(Transport::kSharedMemory);
  options.log_directory = directory;
  ProcessRanks ranks(2, options, [](World& world) {
    const auto group = world.all("all");
    float value = 0;
    group->all_reduce(&value, 1, ElementType::kF32, ReduceOp::kSum, "loss");
    if (world.rank == 1) raise(SIGKILL);
    group->all_reduce(&value, 1, ElementType::kF32, ReduceOp::kSum, "loss");
    return std::string();
  });
  EXPECT_EQ(ranks.wait(0).status, 75);
  std::ifstream file(directory + "/flight_recorder_rank_0.json");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("\"profiling_name\": \"monograph:all_reduce\""));
  EXPECT_THAT(text.str(), HasSubstr("\"state\": \"started\""));
  std::filesystem::remove_all(directory);
}

TEST(ProcessWorldFailureTest, RefusesAForeignToken) {
  const StoreServer server({"127.0.0.1", 0}, 2, "secret");
  ProcessWorldOptions options;
  options.store = {{"127.0.0.1", server.port()}, "guess", 0, 2};
  EXPECT_THAT([&] { join_world(options); },
              testing::ThrowsMessage<UserError>(HasSubstr("MONOGRAPH_JOB_TOKEN is not the job's")));
  options.store = {{"127.0.0.1", server.port()}, "secret", 0, 3};
  EXPECT_THAT([&] { join_world(options); },
              testing::ThrowsMessage<UserError>(HasSubstr("WORLD_SIZE is 3, the job's is 2")));
}

TEST(ProcessWorldFailureTest, NamesTheRankThatNeverCame) {
  const StoreServer server({"127.0.0.1", 0}, 2, "secret");
  ProcessWorldOptions options;
  options.store = {{"127.0.0.1", server.port()}, "secret", 0, 2};
  options.join_timeout = Milliseconds(100);
  EXPECT_THAT(
      [&] { join_world(options); },
      testing::ThrowsMessage<CommError>(HasSubstr("rank 1 never joined the job of 2 ranks")));
}

}  // namespace
}  // namespace monograph::comm
