#include "codegen/cpu/compile.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/process.h"
#include "codegen/cache/kernel_cache.h"
#include "codegen/cache/maintenance.h"
#include "ir/loop/loop_parser.h"

namespace monograph::codegen {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// b1[j] = b0[j] + addend
ir::Loop adding(double addend) {
  return ir::parse_loop(fmt::format(R"(loop rows [] inner 10 blocks 1 of rows sweeps 1 {{
    b0 = input f32 b1 = output f32
    %0 = element f32 load b0[j]
    %1 = scalar f32 constant {}
    %2 = element f32 add(%0, %1)
    element f32 store b1[j] = %2 @0 }})",
                                    addend));
}

// What the kernel makes of 0.
float result_of(KernelFunction function) {
  float in[10] = {}, out[10] = {};
  void* const arguments[] = {in, out};
  function(arguments);
  return out[9];
}

class Compile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "monograph-compile-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    options_.cache_directory = (folder_ / "cache").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  CompiledKernels compile(const std::vector<ir::Loop>& loops) const {
    return compile_loops(loops, options_);
  }
  std::vector<fs::path> files(const std::string& sub_folder, const std::string& extension) const {
    std::vector<fs::path> paths;
    for (const auto& item : fs::directory_iterator(folder_ / "cache" / sub_folder)) {
      if (item.path().extension() == extension) paths.push_back(item.path());
    }
    return paths;
  }
  // Compiles `adding(2)`, damages the cache by `damage`, and expects that it is built again, with a
  // warning that has `words`.
  template <typename Damage>
  void expect_rebuilt(Damage damage, const std::string& words) {
    compile({adding(2)});
    damage();
    const CompiledKernels again = compile({adding(2)});
    EXPECT_EQ(again.num_from_cache, 0);
    EXPECT_EQ(result_of(again.functions[0]), 2);
    EXPECT_THAT(again.warnings, ElementsAre(HasSubstr(words)));
    const CompiledKernels healed = compile({adding(2)});
    EXPECT_EQ(healed.num_from_cache, 1);
    EXPECT_THAT(healed.warnings, IsEmpty());
  }
  std::string user_error() const {
    try {
      compile({adding(1)});
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }
  // An executable script in place of the compiler.
  std::string script(const std::string& text) const {
    const fs::path path = folder_ / "compiler";
    write_file(path, "#!/bin/sh\n" + text);
    chmod(path.c_str(), 0755);
    return path.string();
  }

  fs::path folder_;
  CompileOptions options_;
};

TEST_F(Compile, EqualLoopsAreCompiledOnceAndThenComeFromTheCache) {
  const std::vector<ir::Loop> loops = {adding(1), adding(2), adding(1), adding(3)};
  const CompiledKernels first = compile(loops);
  EXPECT_EQ(first.num_distinct, 3);
  EXPECT_EQ(first.num_from_cache, 0);
  EXPECT_EQ(first.functions[0], first.functions[2]);
  for (const size_t l : {0, 1, 3}) EXPECT_EQ(result_of(first.functions[l]), l == 3 ? 3 : l + 1.0f);
  const CompiledKernels second = compile({adding(3), adding(4)});
  EXPECT_EQ(second.num_from_cache, 1);
  EXPECT_EQ(result_of(second.functions[0]), 3);
  EXPECT_EQ(result_of(second.functions[1]), 4);
  EXPECT_THAT(second.warnings, IsEmpty());
  EXPECT_THAT(files("", ".partial"), IsEmpty());
}

TEST_F(Compile, KeepsTheSourceBesideTheEntry) {
  const CompiledKernels kernels = compile({adding(1), adding(2)});
  for (const double addend : {1, 2}) {
    const auto source = read_file(kernels.sources[addend == 1 ? 0 : 1]);
    ASSERT_TRUE(source.has_value());
    EXPECT_THAT(*source, AllOf(HasSubstr(fmt::format("constant {}\n", addend)),
                               HasSubstr("extern \"C\" void kernel_")));
  }
}

TEST_F(Compile, SplitsKernelsOverCompilers) {
  options_.num_jobs = 3;
  compile({adding(1), adding(2), adding(3), adding(4), adding(5)});
  EXPECT_EQ(files("libraries", ".so").size(), 3u);
  EXPECT_EQ(files("kernels", ".json").size(), 5u);
}

TEST_F(Compile, RebuildsATruncatedLibrary) {
  expect_rebuilt([&] { fs::resize_file(files("libraries", ".so")[0], 1000); },
                 "the library's bytes are not those compiled");
}

TEST_F(Compile, RebuildsALibraryWithOneWrongBit) {
  expect_rebuilt(
      [&] {
        const fs::path library = files("libraries", ".so")[0];
        std::string bytes = *read_file(library);
        bytes[bytes.size() / 2] ^= 1;
        fs::remove(library);  // the old one is still loaded
        write_file(library, bytes);
      },
      "the library's bytes are not those compiled");
}

TEST_F(Compile, RebuildsAMissingLibrary) {
  expect_rebuilt([&] { fs::remove(files("libraries", ".so")[0]); }, "the library is missing");
}

TEST_F(Compile, RebuildsADamagedEntry) {
  for (const char* text : {"", "{", "[]", "{\"format\": 2, \"key\": 1}", "\xff\xfe"}) {
    expect_rebuilt([&] { write_file(files("kernels", ".json")[0], text); }, "the entry is damaged");
    fs::remove_all(options_.cache_directory);
  }
}

TEST_F(Compile, RebuildsAnEntryOfAnotherKernel) {
  compile({adding(1)});
  const std::string other = *read_file(files("kernels", ".json")[0]);
  fs::remove_all(options_.cache_directory);
  expect_rebuilt([&] { write_file(files("kernels", ".json")[0], other); },
                 "the entry is of another kernel, compiler or machine");
}

TEST_F(Compile, AnotherCompilerCommandIsAnotherKernel) {
  compile({adding(1)});
  options_.compiler = "g++ -DOTHER";
  EXPECT_EQ(compile({adding(1)}).num_from_cache, 0);
  EXPECT_EQ(compile({adding(1)}).num_from_cache, 1);
}

TEST_F(Compile, GoesOnInATemporaryFolderWhereTheCacheCannotBeWritten) {
  options_.cache_directory = "/dev/null/cache";
  const CompiledKernels kernels = compile({adding(5)});
  EXPECT_EQ(result_of(kernels.functions[0]), 5);
  EXPECT_THAT(kernels.warnings,
              ElementsAre(AllOf(HasSubstr("/dev/null/cache cannot be written (Not a directory)"),
                                HasSubstr("set MONOGRAPH_CACHE_DIR"))));
}

TEST_F(Compile, SaysThatNothingCanBeWritten) {
  options_.cache_directory = "/dev/null/cache";
  setenv("TMPDIR", "/dev/null", 1);
  EXPECT_THAT(user_error(), HasSubstr("set MONOGRAPH_CACHE_DIR or TMPDIR"));
  unsetenv("TMPDIR");
}

TEST_F(Compile, SaysThatTheCompilerIsMissing) {
  options_.compiler = "no-such-compiler";
  EXPECT_THAT(user_error(), HasSubstr("'no-such-compiler' cannot be run (No such file or "
                                      "directory): install g++, or set CXX to one"));
  options_.compiler = "";
  setenv("CXX", "no-other-compiler", 1);
  EXPECT_THAT(user_error(), HasSubstr("'no-other-compiler' cannot be run"));
  unsetenv("CXX");
}

TEST_F(Compile, RefusesAnotherCompiler) {
  options_.compiler = script("echo 'clang version 14.0.6'");
  EXPECT_THAT(user_error(), HasSubstr("is no g++ (\"clang version 14.0.6\")"));
}

TEST_F(Compile, ShowsWhatTheCompilerSaidAndWhereTheSourceIs) {
  options_.compiler = script(
      "[ \"$1\" = --version ] && echo 'g++ 99 Free Software Foundation' && exit 0\n"
      "echo 'unit0.cc:7: no such luck' >&2; exit 4");
  try {
    compile({adding(1)});
    FAIL() << "no error";
  } catch (const InternalError& error) {
    const std::string text = error.what();
    EXPECT_THAT(text, AllOf(HasSubstr("exit status 4"), HasSubstr("unit0.cc:7: no such luck")));
    const size_t begin = text.find("the source is ") + 14;
    EXPECT_TRUE(fs::exists(text.substr(begin, text.find(":\n", begin) - begin))) << text;
  }
}

TEST_F(Compile, SaysThatTheCompilerWasKilled) {
  options_.compiler = script(
      "[ \"$1\" = --version ] && echo 'g++ 99 Free Software Foundation' && exit 0\nkill -9 $$");
  EXPECT_THAT(user_error(), HasSubstr("was killed by signal 9"));
}

TEST_F(Compile, GoesOnInATemporaryFolderWhenTheCompilerFindsTheDiskFull) {
  options_.compiler = script(
      "case \"$*\" in *--version*) exec g++ --version;;\n"
      "*" +
      folder_.string() +
      "/cache/*) echo 'ld: final link failed: No space left on device' >&2; exit 1;;\n"
      "esac\nexec g++ \"$@\"");
  const CompiledKernels kernels = compile({adding(6)});
  EXPECT_EQ(result_of(kernels.functions[0]), 6);
  EXPECT_THAT(kernels.warnings, ElementsAre(HasSubstr("the disk is full or read-only")));
}

TEST_F(Compile, RemovesWhatAKilledProcessLeft) {
  const fs::path cache = options_.cache_directory;
  fs::create_directories(cache / "work-1-old");
  fs::create_directories(cache / "work-2-new");
  fs::last_write_time(cache / "work-1-old",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  compile({adding(1)});
  EXPECT_FALSE(fs::exists(cache / "work-1-old"));
  EXPECT_TRUE(fs::exists(cache / "work-2-new"));
}

// Run by the test below, in several processes at once.
TEST(CompileProcess, DISABLED_CompilesAndChecks) {
  const char* const folder = std::getenv("MONOGRAPH_TEST_CACHE");
  ASSERT_NE(folder, nullptr);
  std::vector<ir::Loop> loops;
  for (int l = 0; l < 6; ++l) loops.push_back(adding(l));
  const CompiledKernels kernels = compile_loops(loops, {.cache_directory = folder, .num_jobs = 2});
  for (int l = 0; l < 6; ++l) EXPECT_EQ(result_of(kernels.functions[l]), l);
  EXPECT_THAT(kernels.warnings, IsEmpty());
}

// Gives this process its own view of the machine's folders, where it may mount disks that end with
// it.
bool may_mount() {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// Run by the test below, in a process of its own: caches on disks of some sizes. On each the
// kernels are right, and nothing torn stays; where there is space again, the cache serves.
TEST(CompileProcess, DISABLED_CompilesOnFullDisks) {
  if (!may_mount()) GTEST_SKIP() << "this process may not mount a disk";
  const std::string folder = std::getenv("MONOGRAPH_TEST_CACHE");
  int num_warned = 0;
  for (const int kilobytes : {8, 28, 60}) {
    const auto with = [](int kb) { return fmt::format("size={}k", kb); };
    ASSERT_EQ(mount("tmpfs", folder.c_str(), "tmpfs", 0, with(kilobytes).c_str()), 0);
    for (int run = 0; run < 2; ++run) {
      const CompiledKernels kernels = compile_loops(std::vector{adding(1), adding(2)},
                                                    {.cache_directory = folder, .num_jobs = 2});
      for (int l = 0; l < 2; ++l) EXPECT_EQ(result_of(kernels.functions[l]), l + 1);
      for (const std::string& warning : kernels.warnings) {
        EXPECT_THAT(warning, HasSubstr("cannot be written"));
        ++num_warned;
      }
      EXPECT_EQ(list_cache(folder, true).num_damaged(), 0) << kilobytes;
      ASSERT_EQ(mount("tmpfs", folder.c_str(), "tmpfs", MS_REMOUNT, with(4096).c_str()), 0);
    }
    const CompiledKernels again =
        compile_loops(std::vector{adding(1), adding(2)}, {.cache_directory = folder});
    EXPECT_EQ(again.num_from_cache, 2) << kilobytes;
    EXPECT_THAT(again.warnings, IsEmpty());
    ASSERT_EQ(mount("tmpfs", folder.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr), 0);
    const CompiledKernels read =
        compile_loops(std::vector{adding(1), adding(7)}, {.cache_directory = folder});
    EXPECT_EQ(read.num_from_cache, 1);
    EXPECT_THAT(read.warnings, ElementsAre(HasSubstr("Read-only file system")));
    ASSERT_EQ(umount2(folder.c_str(), MNT_DETACH), 0);
  }
  EXPECT_GE(num_warned, 2) << "the disks were not full";
}

TEST_F(Compile, FullAndReadOnlyDisksAreSurvived) {
  fs::create_directories(options_.cache_directory);
  setenv("MONOGRAPH_TEST_CACHE", options_.cache_directory.c_str(), 1);
  const ProcessResult result = run_processes(
      {{fs::read_symlink("/proc/self/exe").string(), "--gtest_also_run_disabled_tests",
        "--gtest_filter=CompileProcess.DISABLED_CompilesOnFullDisks"}})[0];
  unsetenv("MONOGRAPH_TEST_CACHE");
  if (result.output.find("may not mount") != std::string::npos) {
    GTEST_SKIP() << "full disks were NOT tested: this user may not mount a disk (run as root)";
  }
  EXPECT_TRUE(result.is_success()) << result.output;
}

TEST_F(Compile, EightProcessesShareACache) {
  setenv("MONOGRAPH_TEST_CACHE", options_.cache_directory.c_str(), 1);
  const std::vector<std::string> command = {
      fs::read_symlink("/proc/self/exe").string(), "--gtest_also_run_disabled_tests",
      "--gtest_filter=CompileProcess.DISABLED_CompilesAndChecks"};
  for (const ProcessResult& result : run_processes({8, command})) {
    EXPECT_TRUE(result.is_success()) << result.output;
  }
  unsetenv("MONOGRAPH_TEST_CACHE");
  std::vector<ir::Loop> loops;
  for (int l = 0; l < 6; ++l) loops.push_back(adding(l));
  const CompiledKernels kernels = compile(loops);
  EXPECT_EQ(kernels.num_from_cache, 6);
  for (const auto& item : fs::directory_iterator(options_.cache_directory)) {
    EXPECT_FALSE(item.path().filename().string().starts_with("work-")) << item.path();
  }
}

}  // namespace
}  // namespace monograph::codegen
