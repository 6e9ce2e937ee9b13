#include "base/mapped_file.h"

#include <gmock/gmock.h>

#include <fstream>

#include "base/error.h"

namespace monograph {
namespace {

using ::testing::HasSubstr;

std::string message_of(const std::string& path) {
  try {
    MappedFile file("weights", path);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(MappedFile, HoldsTheBytes) {
  const std::string path = ::testing::TempDir() + "/mapped";
  std::ofstream(path) << "abc";
  const MappedFile file("weights", path);
  ASSERT_EQ(file.bytes().size(), 3u);
  EXPECT_EQ(static_cast<char>(file.bytes()[2]), 'c');
  std::ofstream(path + "0").close();
  EXPECT_TRUE(MappedFile("weights", path + "0").bytes().empty());
}

TEST(MappedFile, SaysWhyItCannot) {
  EXPECT_THAT(message_of("/nowhere/file"),
              HasSubstr("cannot read weights '/nowhere/file': No such"));
  EXPECT_THAT(message_of("/tmp"), HasSubstr("weights '/tmp' is a folder"));
  EXPECT_THAT(message_of("/dev/null"), HasSubstr("is no regular file"));
}

}  // namespace
}  // namespace monograph
