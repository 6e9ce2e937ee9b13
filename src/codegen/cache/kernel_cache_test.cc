#include "codegen/cache/kernel_cache.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "codegen/cache/maintenance.h"

namespace monograph::codegen {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class KernelCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "monograph-cache-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static KeyParts key(int number, const std::string& compiler = "g++ 12",
                      const std::string& machine = "this") {
    return {{"loop", fmt::format("loop{}", number)},
            {"source", fmt::format("source{}", number)},
            {"compiler", compiler},
            {"machine", machine}};
  }

  // A library of `num_bytes` with an entry for one kernel.
  static void add(KernelCache& cache, const KeyParts& parts, size_t num_bytes = 100) {
    const fs::path work = cache.make_work_directory();
    write_file(work / "unit.so", part_of(parts, "loop") + std::string(num_bytes, 'x'));
    cache.add(parts, cache.add_library(work / "unit.so"), "kernel", "source", 5'000'000);
    fs::remove_all(work);
  }

  fs::path entry_of(const KeyParts& parts) const {
    return folder_ / "kernels" / (key_of(parts) + ".json");
  }

  fs::path folder_;
};

TEST_F(KernelCacheTest, AMissNamesThePartsThatChanged) {
  KernelCache cache(folder_);
  EXPECT_FALSE(cache.find(key(1)));
  add(cache, key(1));
  EXPECT_TRUE(cache.find(key(1)));
  EXPECT_FALSE(cache.find(key(1, "g++ 13")));
  EXPECT_FALSE(cache.find(key(1, "g++ 13", "another")));
  EXPECT_FALSE(cache.find(
      {{"loop", "loop1"}, {"source", "s"}, {"compiler", "g++ 12"}, {"machine", "this"}}));
  EXPECT_THAT(cache.misses(),
              ElementsAre(Pair("compiler was 'g++ 12', is 'g++ 13'", 1),
                          Pair("compiler was 'g++ 12', is 'g++ 13'; machine was 'this', is "
                               "'another'",
                               1),
                          Pair("new kernel", 1), Pair("source: the generated code is another", 1)));
  EXPECT_THAT(cache.warnings(), IsEmpty()) << "a foreign machine's entry is no fault";
}

TEST_F(KernelCacheTest, AnEntryOfAnotherVersionIsBuiltAgain) {
  KernelCache cache(folder_);
  add(cache, key(1));
  write_file(entry_of(key(1)), R"({"key": {"loop": "loop1"}, "symbol": "k", "library": "x"})");
  EXPECT_FALSE(cache.find(key(1)));
  EXPECT_THAT(cache.warnings(), ElementsAre(HasSubstr("another version of Monograph")));
  EXPECT_THAT(cache.misses(), ElementsAre(Pair("its entry is damaged or gone", 1)));
}

// Any byte of an entry or library: a hit gives what was compiled, or there is none.
TEST_F(KernelCacheTest, NoFlippedBitOrCutFileIsLoaded) {
  KernelCache cache(folder_);
  add(cache, key(1), 40);
  const CacheContents contents = list_cache(folder_, true);
  const fs::path library = folder_ / "libraries" / (contents.items[0].entry.library + ".so");
  const std::string entry_bytes = *read_file(entry_of(key(1)));
  for (const fs::path& path : {entry_of(key(1)), library}) {
    const std::string whole = *read_file(path);
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
      for (const std::string& bytes : {flipped, whole.substr(0, at)}) {
        write_file(entry_of(key(1)), entry_bytes);  // find() may have removed it
        write_file(path, bytes);
        const auto entry = cache.find(key(1));
        if (entry) {
          EXPECT_EQ(hash_of(*read_file(entry->library)).hex(), entry->library.stem());
          EXPECT_EQ(*read_file(entry->library), *read_file(library));
        }
      }
    }
    write_file(path, whole);
  }
  write_file(entry_of(key(1)), entry_bytes);
  EXPECT_TRUE(cache.find(key(1)));
}

TEST_F(KernelCacheTest, VariablesStandInTheFolder) {
  setenv("SLURM_JOB_ID", "77", 1);
  setenv("RANK", "3", 1);
  unsetenv("MONOGRAPH_NOT_SET");
  EXPECT_EQ(expand_variables("/s/${SLURM_JOB_ID}/rank_${RANK}"), "/s/77/rank_3");
  EXPECT_EQ(expand_variables("/s/${MONOGRAPH_NOT_SET:-none}/x"), "/s/none/x");
  EXPECT_EQ(expand_variables("/plain/$x"), "/plain/$x");
  setenv("MONOGRAPH_CACHE_DIR", "/c/${RANK}", 1);
  EXPECT_EQ(cache_directory(), "/c/3");
  EXPECT_EQ(cache_directory("/d/${RANK}"), "/d/3");
  unsetenv("MONOGRAPH_CACHE_DIR");
  for (const char* wrong : {"/s/${MONOGRAPH_NOT_SET}", "/s/${RANK"}) {
    EXPECT_THROW(expand_variables(wrong), UserError) << wrong;
  }
}

TEST_F(KernelCacheTest, GarbageGoesAndTheRestStays) {
  KernelCache cache(folder_);
  for (int i = 0; i < 4; ++i) add(cache, key(i), 10'000);
  write_file(entry_of(key(0)), "{}");
  const fs::path left = folder_ / "work-1-abc";
  fs::create_directories(left);
  CacheContents contents = list_cache(folder_, true);
  EXPECT_EQ(contents.items.size(), 4u);
  EXPECT_EQ(contents.num_damaged(), 1);
  EXPECT_EQ(contents.orphans.size(), 1u) << "the damaged entry's library";
  EXPECT_EQ(contents.leftovers.size(), 1u);

  EXPECT_EQ(collect_garbage(folder_, {}).num_entries, 1);
  EXPECT_TRUE(fs::exists(left)) << "somebody may be compiling there";
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(50);
  fs::last_write_time(left, old);
  fs::last_write_time(entry_of(key(2)), old);
  EXPECT_EQ(collect_garbage(folder_, {.max_idle_s = 48 * 3600}).num_entries, 1);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_FALSE(cache.find(key(2)));
  EXPECT_TRUE(cache.find(key(1)));

  fs::last_write_time(entry_of(key(1)), fs::file_time_type::clock::now() - std::chrono::hours(1));
  const int64_t bytes = list_cache(folder_, false).num_bytes;
  EXPECT_EQ(collect_garbage(folder_, {.max_bytes = bytes - 100}).num_entries, 1);
  EXPECT_FALSE(cache.find(key(1))) << "used least recently";
  EXPECT_TRUE(cache.find(key(3)));
  EXPECT_EQ(list_cache("/nowhere/cache", true).items.size(), 0u);
}

TEST_F(KernelCacheTest, LibrariesStayWhileAnEntryNamesThem) {
  KernelCache cache(folder_);
  const fs::path work = cache.make_work_directory();
  write_file(work / "unit.so", "two kernels");
  const fs::path library = cache.add_library(work / "unit.so");
  for (int i = 0; i < 2; ++i) cache.add(key(i), library, "kernel", "source", 1);
  fs::last_write_time(entry_of(key(0)), fs::file_time_type::clock::now() - std::chrono::hours(9));
  collect_garbage(folder_, {.max_idle_s = 3600});
  EXPECT_FALSE(cache.find(key(0)));
  EXPECT_TRUE(cache.find(key(1)));
}

// A child that adds kernels is killed at its k-th system call, whatever that is.
TEST_F(KernelCacheTest, KilledAtAnyPointOfAWriteTheCacheLoads) {
  const auto add_all = [&] {
    KernelCache cache(folder_);
    for (int i = 0; i < 3; ++i) add(cache, key(i));
  };
  bool has_ended = false;
  int num_killed = 0;
  std::set<int> hits;
  for (int point = 2; !has_ended; point += 3) {
    fs::remove_all(folder_);
    const pid_t child = fork();
    if (child == 0) {
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      raise(SIGSTOP);
      add_all();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSTOPPED(status)) << "processes cannot be traced here";
    for (int call = 0; call < point && !has_ended; ++call) {
      ASSERT_EQ(ptrace(PTRACE_SYSCALL, child, nullptr, nullptr), 0);
      waitpid(child, &status, 0);
      has_ended = WIFEXITED(status);
    }
    if (!has_ended) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      ++num_killed;
    }
    KernelCache cache(folder_);
    int num_hits = 0;
    for (int i = 0; i < 3; ++i) num_hits += cache.find(key(i)).has_value();
    hits.insert(num_hits);
    EXPECT_THAT(cache.warnings(), IsEmpty()) << "killed at system call " << point;
    for (int i = 0; i < 3; ++i) add(cache, key(i));
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(cache.find(key(i)));
    EXPECT_EQ(list_cache(folder_, true).num_damaged(), 0);
  }
  EXPECT_GE(num_killed, 50);
  EXPECT_THAT(hits, ElementsAre(0, 1, 2, 3));
}

// What a child says of a cache that it cannot write; its files may have so many bytes.
std::string in_child(rlim_t file_bytes, const std::function<std::string()>& work) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);  // as the program does
    const rlimit limit{file_bytes, file_bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string answer = work();
    (void)!write(ends[1], answer.data(), answer.size());
    _exit(0);
  }
  close(ends[1]);
  std::string answer;
  char buffer[1000];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) answer.append(buffer, n);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "the child was killed";
  return answer;
}

TEST_F(KernelCacheTest, AFullDiskLeavesNoTornEntry) {
  const std::string answer = in_child(60, [&]() -> std::string {
    KernelCache cache(folder_);
    try {
      add(cache, key(1), 40);
    } catch (const fs::filesystem_error& error) {
      return error.what();
    }
    return "nothing was thrown";
  });
  EXPECT_THAT(answer, HasSubstr("cannot write"));
  KernelCache cache(folder_);
  EXPECT_FALSE(cache.find(key(1)));
  EXPECT_THAT(cache.warnings(), IsEmpty());
  EXPECT_EQ(list_cache(folder_, true).num_damaged(), 0);
}

TEST_F(KernelCacheTest, AFolderThatCannotBeReadIsAnError) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give up its rights";
  KernelCache cache(folder_);
  add(cache, key(1));
  fs::permissions(folder_ / "kernels", fs::perms::none);
  const std::string answer = in_child(RLIM_INFINITY, [&]() -> std::string {
    if (setuid(65534) != 0) return "cannot change the user";
    try {
      list_cache(folder_, true);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  });
  fs::permissions(folder_ / "kernels", fs::perms::owner_all);
  EXPECT_THAT(answer, HasSubstr("cannot read the cache folder"));
}

TEST(CacheEntryTest, AnyTextIsRefusedWithAReason) {
  const CacheEntry entry{{{"loop", "l"}}, "kernel", std::string(32, 'a'), "note", 7};
  const auto again = std::get<CacheEntry>(parse_entry(to_text(entry)));
  EXPECT_EQ(again.key, entry.key);
  EXPECT_EQ(again.note, "note");
  EXPECT_EQ(again.compile_ns, 7);
  for (const char* text : {"", "[]", "{", "{\"format\": 2}", "{\"format\": \"2\"}",
                           R"({"format":2,"symbol":"k","library":"../../x","key":[]})",
                           R"({"format":2,"symbol":"k","library":3,"key":[["a"]]})"}) {
    EXPECT_TRUE(std::holds_alternative<std::string>(parse_entry(text))) << text;
  }
}

}  // namespace
}  // namespace monograph::codegen
