#include "base/atomic_file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace monograph {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string read(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class AtomicFileTest : public ::testing::Test {
 protected:
  AtomicFileTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  int num_files() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  // Tests run side by side.
  const std::string folder_ = ::testing::TempDir() + "/atomic_file." +
                              ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string path_ = folder_ + "/weights";
};

TEST_F(AtomicFileTest, ReplacesTheFileAtCommit) {
  std::ofstream(path_) << "old";
  AtomicFile file("weights", path_);
  file.write(bytes_of("new "));
  file.write(bytes_of("text"));
  EXPECT_EQ(read(path_), "old");
  file.commit();
  EXPECT_EQ(read(path_), "new text");
  EXPECT_EQ(num_files(), 1);
}

TEST_F(AtomicFileTest, LeavesNothingWithoutCommit) {
  std::ofstream(path_) << "old";
  {
    AtomicFile file("weights", path_);
    file.write(bytes_of("new"));
    EXPECT_EQ(num_files(), 2);
  }
  EXPECT_EQ(read(path_), "old");
  EXPECT_EQ(num_files(), 1);
}

TEST_F(AtomicFileTest, SaysWhyItCannot) {
  try {
    AtomicFile file("weights", folder_ + "/none/weights");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot write weights '"));
    EXPECT_THAT(error.what(), HasSubstr("No such file"));
  }
}

}  // namespace
}  // namespace monograph
