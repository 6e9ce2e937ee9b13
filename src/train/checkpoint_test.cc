#include "train/checkpoint.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/philox.h"

namespace monograph::train {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The states of step N, all elements functions of N.
Checkpoint checkpoint_of(int64_t step, int64_t size = 1000) {
  Checkpoint checkpoint;
  checkpoint.step = step;
  checkpoint.settings = {{"seed", "1"}};
  const auto value = [&](double scale) {
    return ir::Literal::from({ir::DType::kF32, {size}}, [&](int64_t i) {
      return scale * static_cast<double>(step) + static_cast<double>(i);
    });
  };
  checkpoint.states = {{"h.weight", value(1)},
                       {"h.bias", value(2)},
                       {"step", ir::Literal::scalar(ir::DType::kI64, static_cast<double>(step))}};
  return checkpoint;
}

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest()
      : root_(fs::temp_directory_path() / fmt::format("checkpoints-{}", getpid())),
        folder_((root_ / "run").string()) {}
  ~CheckpointTest() override { fs::remove_all(root_); }

  std::string path(const std::string& name) const { return (fs::path(folder_) / name).string(); }
  std::string message_of_reading(int64_t step) const {
    try {
      read_checkpoint(folder_, step);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }
  void flip(const std::string& name, int64_t offset) const {
    std::fstream file(path(name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(offset);
    const int byte = file.get();
    file.seekp(offset);
    file.put(static_cast<char>(byte ^ 4));
  }
  // The newest is whole, and not older than `least`.
  void expect_loadable(int64_t least) const {
    const std::vector<int64_t> steps = checkpoint_steps(folder_);
    ASSERT_FALSE(steps.empty());
    EXPECT_GE(steps.back(), least);
    for (const int64_t step : steps) {
      const Checkpoint read = read_checkpoint(folder_, step);
      EXPECT_EQ(read.states, checkpoint_of(step).states);
      EXPECT_EQ(read.settings, checkpoint_of(step).settings);
    }
  }

  const fs::path root_;
  const std::string folder_;
};

TEST_F(CheckpointTest, IsReadAsItWasWritten) {
  EXPECT_TRUE(checkpoint_steps(folder_).empty());
  write_checkpoint(folder_, checkpoint_of(7));
  EXPECT_THAT(checkpoint_steps(folder_), ElementsAre(7));
  expect_loadable(7);
}

TEST_F(CheckpointTest, KeepsTheNewestAndRemovesLeftOvers) {
  CheckpointWriter writer(folder_, 2);
  std::ofstream(path("step-3.safetensors")) << "its writer was stopped";
  std::ofstream(path("step-4.json.77.partial")) << "{";
  std::ofstream(path("notes.txt")) << "of the user";
  for (const int64_t step : {8, 9, 10, 11}) writer.save(checkpoint_of(step));
  writer.finish();
  EXPECT_THAT(checkpoint_steps(folder_), ElementsAre(10, 11));
  expect_loadable(11);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 5);
  EXPECT_TRUE(fs::exists(path("notes.txt")));
}

TEST_F(CheckpointTest, AnyFlippedByteIsNoticed) {
  write_checkpoint(folder_, checkpoint_of(7, 20));
  for (const std::string name : {"step-7.json", "step-7.safetensors"}) {
    const auto size = static_cast<int64_t>(fs::file_size(path(name)));
    for (int64_t offset = 0; offset < size; offset += 3) {
      flip(name, offset);
      EXPECT_THAT(message_of_reading(7), HasSubstr("step-7")) << name << " byte " << offset;
      flip(name, offset);
    }
  }
  EXPECT_EQ(message_of_reading(7), "no error");
  flip("step-7.safetensors", static_cast<int64_t>(fs::file_size(path("step-7.safetensors"))) - 20);
  EXPECT_THAT(message_of_reading(7), HasSubstr("the elements of tensor 'h.weight' were changed"));
}

TEST_F(CheckpointTest, ACutOrMissingFileIsNamed) {
  write_checkpoint(folder_, checkpoint_of(7));
  fs::resize_file(path("step-7.safetensors"), 3000);
  EXPECT_THAT(message_of_reading(7), HasSubstr("step-7.safetensors"));
  fs::remove(path("step-7.safetensors"));
  EXPECT_THAT(message_of_reading(7), HasSubstr("step-7.safetensors"));
  fs::resize_file(path("step-7.json"), 50);
  EXPECT_THAT(message_of_reading(7), HasSubstr("the manifest is cut"));
}

TEST_F(CheckpointTest, FilesOfTwoCheckpointsDoNotMix) {
  write_checkpoint(folder_, checkpoint_of(7));
  write_checkpoint(folder_, checkpoint_of(8));
  fs::copy_file(path("step-8.safetensors"), path("step-7.safetensors"),
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(message_of_reading(7), HasSubstr("the elements of tensor 'h.bias' were changed"));
  fs::copy_file(path("step-8.json"), path("step-7.json"), fs::copy_options::overwrite_existing);
  EXPECT_THAT(message_of_reading(7), HasSubstr("it is of step 8"));
}

TEST_F(CheckpointTest, SettingsThatDifferAreNamed) {
  try {
    checkpoint_of(7).check_settings(folder_, {{"seed", "2"}});
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("step-7.json' cannot be used: its seed is 1, of this run"));
  }
}

TEST_F(CheckpointTest, AFolderThatCannotBeWrittenIsNamed) {
  EXPECT_THROW(CheckpointWriter("/proc/none", 2), UserError);
  EXPECT_THROW(CheckpointWriter(folder_, 0), UserError);
}

// The child is killed by the system in the write that would pass `limit` bytes of any file.
TEST_F(CheckpointTest, AWriterKilledAtAnyByteLeavesTheOneBefore) {
  write_checkpoint(folder_, checkpoint_of(1));
  const auto size = static_cast<int64_t>(fs::file_size(path("step-1.safetensors")));
  for (int64_t point = 0; point < 50; ++point) {
    const pid_t child = fork();
    if (child == 0) {
      const auto limit = static_cast<rlim_t>(size * point / 50);
      const rlimit limits = {limit, limit};
      const rlimit no_core = {0, 0};
      setrlimit(RLIMIT_CORE, &no_core);
      setrlimit(RLIMIT_FSIZE, &limits);
      write_checkpoint(folder_, checkpoint_of(2));
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "point " << point;
    EXPECT_THAT(checkpoint_steps(folder_), ElementsAre(1));
    expect_loadable(1);
  }
}

// Killed at any moment while it writes one after the other, removing old ones.
TEST_F(CheckpointTest, AWriterKilledAtAnyMomentLeavesALoadableOne) {
  write_checkpoint(folder_, checkpoint_of(1));
  int64_t newest = 1;
  for (uint32_t point = 0; point < 50; ++point) {
    const pid_t child = fork();
    if (child == 0) {
      for (int64_t step = newest + 1;; ++step) {
        write_checkpoint(folder_, checkpoint_of(step));
        clean_checkpoints(folder_, 2);
      }
    }
    usleep(static_cast<useconds_t>(philox_uniform(1, 2, 3, point) * 20'000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    expect_loadable(newest);
    newest = checkpoint_steps(folder_).back();
  }
}

}  // namespace
}  // namespace monograph::train
